"""The README's settings for a bucket and PostgreSQL, as `lakestream doctor` finds them."""

import asyncio
from pathlib import Path

import pytest

from tests.support.guide import clone, example_of_deployment
from tests.support.postgres import postgres_server, postgres_url
from tests.support.postgres_proxy import PostgresProxy
from tests.support.readme import DEPLOYED, blocks, words
from tests.support.s3 import S3Server, s3_server

__all__ = ["postgres_server", "postgres_url", "s3_server"]

pytestmark = [pytest.mark.s3, pytest.mark.postgres, pytest.mark.timeout(600, func_only=True)]
OF_SPARK = ("Java", "pyspark", "Spark's jars", "compiled kernels")


async def test_the_settings_for_s3_and_postgresql_are_found_well(
    tmp_path: Path, s3_server: S3Server, postgres_url: str
) -> None:
    async with PostgresProxy(postgres_url) as proxy:
        await asyncio.to_thread(run, tmp_path, example_of_deployment(s3_server, proxy.url))


def run(folder: Path, names: dict[str, str]) -> None:
    # The server of the tests has no TLS.
    with clone(folder, names, {"LAKESTREAM_STORE__ALLOW_HTTP": "true"}) as typed:
        for block in blocks(DEPLOYED):
            if block.language == "toml":
                typed.run_block(block)
        (command,) = (
            command
            for block in blocks(DEPLOYED)
            for command in block.commands
            if words(command)[:2] == ["lakestream", "doctor"]
        )
        # What Spark needs may be still to come on this machine: then it ends with 1, and rightly.
        found = typed.shell(command, codes=(0, 1)).splitlines()
    sick = [line for line in found if line.startswith("sick")]
    assert [
        line for line in sick if not line.removeprefix("sick").strip().startswith(OF_SPARK)
    ] == []
    shown = "\n".join(found)
    for what in ("metadata store", f"WAL in {names['s3://my-bucket/lake']}", "warehouse", "clock"):
        assert f"well  {what} " in shown, shown
