"""Whether this process may write to the metadata store, tried by a write that is undone."""

from contextlib import suppress
from uuid import uuid4

from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.metadata.database import Database, Execute, Transaction


class _UndoneError(LakestreamError):
    """Rolls back what was tried."""


async def check_writable(database: Database) -> None:
    """Raises what the store says when it does not take a row."""
    with suppress(_UndoneError):
        await database.run(_tried(f"doctor {uuid4().hex}"))


def _tried(name: str) -> Transaction[None]:
    yield Execute("INSERT INTO leases (name, epoch, holder, beat) VALUES ($1, 1, NULL, 0)", (name,))
    raise _UndoneError("the write works and is undone")
