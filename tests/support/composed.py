"""The processes of compose.yaml on this machine: same commands, same variables, same health checks.

Only what a container network would give is put in: addresses, ports, and the secrets of the servers
that the tests run.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil

from tests.support.deployment import ROOT, environment, make_secrets, ours
from tests.support.ingress_process import START_S, eventually
from tests.support.ports import free_port
from tests.support.s3 import S3Server


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """One service as a process."""

    name: str
    process: psutil.Popen
    log: Path
    port: int
    admin_port: int

    def get(self, path: str) -> str:
        with urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=60) as answer:
            return str(answer.read().decode())

    def is_healthy(self) -> bool:
        """Whether the health check of the container would say so."""
        assert self.process.poll() is None, self.log.read_text()
        _, _, *check = ours()[self.name]["healthcheck"]["test"]
        words = [word.replace(":8092/", f":{self.admin_port}/") for word in check]
        done = subprocess.run([sys.executable, *words], capture_output=True, timeout=60)
        return done.returncode == 0

    def stop(self) -> int:
        """As Docker stops a container; the exit code."""
        self.process.terminate()
        return int(self.process.wait(START_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """The servers that the services need, and a folder for their secrets and logs."""

    folder: Path
    s3: S3Server
    postgres: str
    data: str = field(default="")

    def started(self, name: str) -> Composed:
        """The service's process, started and not waited for."""
        port, admin_port = free_port(), free_port()
        environ = {**self._variables(name), **_ports(name, port, admin_port)}
        kept = {k: v for k, v in os.environ.items() if not k.startswith("LAKESTREAM_")}
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            process = psutil.Popen(
                [sys.executable, "-m", "lakestream_spark", *ours()[name]["command"]],
                # Where the job's container works too; the package is found by its path.
                cwd=self.folder,
                env={**kept, **environ, "PYTHONPATH": str(ROOT)},
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        return Composed(name=name, process=process, log=log, port=port, admin_port=admin_port)

    def _variables(self, name: str) -> dict[str, str]:
        secrets = make_secrets(self.folder / "secrets")
        options = self.s3.options()
        assert options.secret_access_key is not None
        secret = options.secret_access_key.get_secret_value()
        properties: dict[str, str] = json.loads((secrets / "catalog_properties").read_text())
        properties |= {
            "s3.endpoint": str(options.endpoint),
            "s3.access-key-id": str(options.access_key_id),
            "s3.secret-access-key": secret,
        }
        (secrets / "metadata_url").write_text(self.postgres)
        (secrets / "s3_secret_key").write_text(secret)
        (secrets / "catalog_properties").write_text(json.dumps(properties))
        return {
            **environment(ours()[name], secrets),
            "LAKESTREAM_DATA": self.data or self.s3.new_url(),
            "LAKESTREAM_STORE__ENDPOINT": str(options.endpoint),
            "LAKESTREAM_STORE__ACCESS_KEY_ID": str(options.access_key_id),
        }


def _ports(name: str, port: int, admin_port: int) -> Mapping[str, str]:
    if not name.startswith("broker"):
        return {f"LAKESTREAM_{name.upper()}__ADMIN_PORT": str(admin_port)}
    return {
        "LAKESTREAM_BROKER__PORT": str(port),
        "LAKESTREAM_BROKER__ADMIN_PORT": str(admin_port),
        "LAKESTREAM_BROKER__ADVERTISED_HOST": "127.0.0.1",
    }


@contextmanager
def running(composition: Composition, *names: str) -> Iterator[list[Composed]]:
    """The services, once each is healthy; killed with all below them when the block ends."""
    started: list[Composed] = []
    try:
        started.extend(map(composition.started, names))
        for each in started:
            eventually(each.is_healthy, START_S)
        yield started
    finally:
        for each in started:
            _kill(each.process)


def _kill(process: Any) -> None:
    below: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        below = process.children(recursive=True)
    for each in [*below, process]:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait(START_S)
