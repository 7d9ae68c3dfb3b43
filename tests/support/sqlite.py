"""SQLite in memory without a thread, so that a simulation decides when anything happens."""

from typing import TypeVar

from lakestream_spark.metadata.database import Transaction
from lakestream_spark.metadata.sqlite import _open, _run

T = TypeVar("T")


class InlineSqlite:
    """The same transactions on the same connection code, run at once in the caller."""

    dialect_name = "sqlite"

    def __init__(self) -> None:
        self._connection = _open(None)

    async def run(self, tx: Transaction[T]) -> T:
        return _run(self._connection, "BEGIN IMMEDIATE", tx)

    async def read(self, tx: Transaction[T]) -> T:
        return _run(self._connection, "BEGIN", tx)

    async def changed(self, within_s: float) -> None:
        """Nobody else can have committed."""

    async def close(self) -> None:
        self._connection.close()
