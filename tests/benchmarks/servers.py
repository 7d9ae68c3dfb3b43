"""The stores that the benchmarks run on: a temporary folder, S3, SQLite, PostgreSQL.

A server that cannot be started here leaves its rows out, and a note says why.
"""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from lakestream_spark.core.clock import Clock, SystemClock
from lakestream_spark.metadata import Metadata, open_metadata
from tests.benchmarks.harness import Options, Report
from tests.support.postgres import shared_server
from tests.support.s3 import S3Server, find_or_build

SQLITE: Final = "sqlite"
POSTGRES: Final = "postgresql"


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder on the disk, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="lakestream-bench-") as folder:
        yield Path(folder)


def databases(report: Report, options: Options) -> list[str]:
    """The kinds of metadata store that can be measured here."""
    if options.embedded:
        return [SQLITE]
    try:
        shared_server()
    except pytest.skip.Exception as skipped:
        report.notes.append(f"without PostgreSQL: {skipped}")
        return [SQLITE]
    return [SQLITE, POSTGRES]


@asynccontextmanager
async def fresh_url(kind: str) -> AsyncIterator[str]:
    """The URL of an empty database, which goes at the end."""
    if kind == SQLITE:
        with scratch() as folder:
            yield f"sqlite:///{folder}/metadata.db"
        return
    server, name = shared_server(), f"bench_{uuid4().hex}"
    await server.execute(f"CREATE SCHEMA {name}")
    try:
        yield server.url(name)
    finally:
        await server.execute(f"DROP SCHEMA {name} CASCADE")


@asynccontextmanager
async def opened(url: str, clock: Clock | None = None) -> AsyncIterator[Metadata]:
    metadata = await open_metadata(url, clock=clock or SystemClock())
    try:
        yield metadata
    finally:
        await metadata.close()


@asynccontextmanager
async def fresh_metadata(kind: str, clock: Clock | None = None) -> AsyncIterator[Metadata]:
    """The services on an empty database."""
    async with fresh_url(kind) as url, opened(url, clock) as metadata:
        yield metadata


@contextmanager
def s3_server(report: Report, options: Options) -> Iterator[S3Server | None]:
    """A running S3 server, or None where there is none."""
    if options.embedded:
        yield None
        return
    try:
        binary = find_or_build()
    except (pytest.skip.Exception, pytest.fail.Exception) as skipped:
        report.notes.append(f"without S3: {skipped}")
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="lakestream-bench-s3-"))
    server = S3Server(binary, folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder)
