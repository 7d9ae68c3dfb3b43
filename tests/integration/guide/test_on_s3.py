"""The README on a bucket: three brokers and the jobs over a real S3 server and PostgreSQL."""

import asyncio
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.guide import Clone, clone, example_of_deployment
from tests.support.ingress_process import START_S, eventually
from tests.support.ports import free_port
from tests.support.postgres import postgres_server, postgres_url
from tests.support.postgres_proxy import PostgresProxy
from tests.support.readme import DEPLOYED, ON_S3, Block, blocks, headings_run_by
from tests.support.s3 import S3Server, s3_server

__all__ = ["postgres_server", "postgres_url", "s3_server"]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.s3,
    pytest.mark.postgres,
    pytest.mark.long,
    pytest.mark.timeout(600, func_only=True),
]
QUERIED = [heading for heading in headings_run_by(ON_S3) if heading != DEPLOYED]


async def test_three_brokers_on_s3_and_postgresql(
    tmp_path: Path, s3_server: S3Server, postgres_url: str
) -> None:
    # By TCP, as from another host: Spark reaches PostgreSQL in no other way.
    async with PostgresProxy(postgres_url) as proxy:
        await asyncio.to_thread(run, tmp_path, example_of_deployment(s3_server, proxy.url))


def run(folder: Path, names: dict[str, str]) -> None:
    # The server of the tests has no TLS.
    environ = {"LAKESTREAM_STORE__ALLOW_HTTP": "true"}
    with clone(folder, names, environ) as typed:
        before, after = parted()
        for block in before:
            typed.run_block(block)
        (servers,) = [block.commands for block in blocks(DEPLOYED) if is_servers(block.commands)]
        with started(typed, servers) as processes:
            for block in after:
                typed.run_block(block)
            for heading in QUERIED:
                typed.run(heading)
            assert stopped(processes) == [0] * len(servers)


def is_servers(commands: Sequence[str]) -> bool:
    return any(command.startswith("lakestream ingress") for command in commands)


def parted() -> tuple[list[Block], list[Block]]:
    """The blocks before and after the one that starts everything."""
    found = blocks(DEPLOYED)
    (place,) = [n for n, block in enumerate(found) if is_servers(block.commands)]
    return found[:place], found[place + 1 :]


@contextmanager
def started(typed: Clone, commands: Sequence[str]) -> Iterator[list[psutil.Popen]]:
    """Each as a process with ports of its own, once the brokers listen; killed at the end."""
    processes: list[psutil.Popen] = []
    try:
        for number, command in enumerate(commands):
            ports = {
                "LAKESTREAM_BROKER__PORT": str(free_port()),
                "LAKESTREAM_BROKER__ADMIN_PORT": str(free_port()),
            }
            with (typed.folder / f"process-{number}.log").open("w") as log:
                process = psutil.Popen(
                    ["bash", "-c", f"exec {typed.replaced(command)}"],
                    cwd=typed.folder,
                    env={**typed.environ, **ports},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            processes.append(process)
        eventually(lambda: listening(typed.folder) == 3, START_S)
        yield processes
    finally:
        for process in processes:
            kill(process)


def listening(folder: Path) -> int:
    return sum("listening on" in log.read_text() for log in folder.glob("process-*.log"))


def stopped(processes: Sequence[psutil.Popen]) -> list[int]:
    """The exit codes after SIGTERM."""
    for process in processes:
        process.terminate()
    return [process.wait(START_S) for process in processes]


def kill(process: psutil.Popen) -> None:
    if process.poll() is None:
        for each in [*process.children(recursive=True), process]:
            each.kill()
        process.wait(START_S)
