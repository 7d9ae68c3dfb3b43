"""SQLite: the embedded store, and in memory the twin of the real ones.

What always holds: one thread owns the writing connection, so that this process's write transactions
follow each other; `BEGIN IMMEDIATE` makes those of other processes wait; a commit is on disk when
`run` returns (`synchronous=FULL`). Never put the file on a network file system.
"""

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from lakestream_spark.core.errors import (
    Corrupt,
    LakestreamError,
    Misconfigured,
    OutcomeUnknown,
    Unavailable,
)
from lakestream_spark.metadata.database import (
    DeleteMany,
    Exclusive,
    Execute,
    Fetch,
    FetchMany,
    Notify,
    Rows,
    Statement,
    Transaction,
)
from lakestream_spark.metadata.dialect import sqlite_each, sqlite_sql

T = TypeVar("T")

BUSY_TIMEOUT_S: Final = 10.0
_LOOK_AGAIN_S: Final = 0.01
_PAGE_BYTES: Final = 1024
"""Small: a commit of many partitions touches one page of the index for each of them."""
_CHECKPOINT_CHANGES: Final = 20_000
"""After so many changed rows the log of the database is written back, beside the commits."""
_LOG_LIMIT_BYTES: Final = 64 << 20
"""Only when the log grows beyond this does a commit write it back itself."""


class SqliteDatabase:
    """Transactions on one SQLite file, or on one in memory when `path` is None."""

    dialect_name = "sqlite"

    def __init__(self, path: Path | None) -> None:
        self._seen_version = 0
        self._writer = _Connection("metadata-writer", lambda: _open(path))
        # Without a file there is nothing a second connection could share.
        self._reader = (
            self._writer
            if path is None
            else _Connection("metadata-reader", lambda: _open_reader(path))
        )
        self._checkpointer = (
            None if path is None else _Connection("metadata-checkpoint", lambda: _open(path))
        )
        self._changes_written_back = 0

    async def run(self, tx: Transaction[T]) -> T:
        return await self._writer.call(lambda connection: self._write(connection, tx))

    async def read(self, tx: Transaction[T]) -> T:
        return await self._reader.call(lambda connection: _run(connection, "BEGIN", tx))

    async def changed(self, within_s: float) -> None:
        """SQLite cannot notify: a counter tells whether another connection has committed."""
        deadline = asyncio.get_running_loop().time() + within_s
        while True:
            version = await self._reader.call(_data_version)
            seen, self._seen_version = self._seen_version, version
            if version != seen or asyncio.get_running_loop().time() >= deadline:
                return
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def close(self) -> None:
        if self._checkpointer is not None:
            await self._checkpointer.close()
            await self._reader.close()
        await self._writer.close()

    def _write(self, connection: sqlite3.Connection, tx: Transaction[T]) -> T:
        result = _run(connection, "BEGIN IMMEDIATE", tx)
        changes = connection.total_changes
        if self._checkpointer and changes - self._changes_written_back >= _CHECKPOINT_CHANGES:
            self._changes_written_back = changes
            self._checkpointer.submit(_checkpoint)
        return result


class _Connection:
    """A connection and the one thread that touches it."""

    def __init__(self, name: str, connect: Callable[[], sqlite3.Connection]) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._connect = connect
        self._connection: sqlite3.Connection | None = None

    async def call(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)

    def submit(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Do the work some time; nobody waits for it."""
        self._thread.submit(self._work, work)

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._connection is None:
            self._connection = self._connect()
        return work(self._connection)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _open(path: Path | None) -> sqlite3.Connection:
    try:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            ":memory:" if path is None else path,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            cached_statements=512,
        )
        connection.execute(f"PRAGMA page_size={_PAGE_BYTES}")
        _switch_to_log(connection)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA cache_size=-65536")
        connection.execute(f"PRAGMA wal_autocheckpoint={_LOG_LIMIT_BYTES // _PAGE_BYTES}")
        connection.execute(f"PRAGMA journal_size_limit={_LOG_LIMIT_BYTES}")
    except (sqlite3.Error, OSError) as error:
        raise _opening(path, error) from error
    return connection


def _switch_to_log(connection: sqlite3.Connection) -> None:
    """Turn on the write-ahead log, which the file keeps from then on.

    Of several processes that do this to a new file at once SQLite refuses all but one immediately,
    without its busy timeout: the waiting is done here.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)


def _open_reader(path: Path) -> sqlite3.Connection:
    connection = _open(path)
    connection.execute("PRAGMA query_only=ON")
    return connection


def _checkpoint(connection: sqlite3.Connection) -> None:
    """Write the log back into the database, as far as that disturbs nobody."""
    with suppress(sqlite3.Error):  # what could not be written back stays in the log
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def _run(connection: sqlite3.Connection, begin: str, tx: Transaction[T]) -> T:
    try:
        connection.execute(begin)
    except sqlite3.Error as error:
        tx.close()
        raise _translated(error) from error
    try:
        result = _drive(connection, tx)
    except BaseException as error:
        tx.close()
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error):
            raise _translated(error) from error
        raise
    _commit(connection)
    return result


def _data_version(connection: sqlite3.Connection) -> int:
    """Changes whenever another connection, of this process or not, has committed."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


def _commit(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        if _code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY):
            raise _translated(error) from error
        raise OutcomeUnknown("SQLite failed while committing", error=error) from error


def _drive(connection: sqlite3.Connection, tx: Transaction[T]) -> T:
    try:
        statement = next(tx)
        while True:
            statement = tx.send(_execute(connection, statement))
    except StopIteration as stop:
        result: T = stop.value
        return result


def _execute(connection: sqlite3.Connection, statement: Statement) -> Rows:
    match statement:
        case Fetch(sql=sql, args=args) | Execute(sql=sql, args=args):
            return connection.execute(sqlite_sql(sql), [_bound(arg) for arg in args]).fetchall()
        case Notify():
            return []  # whoever waits looks at `data_version`
        case Exclusive():
            return []  # BEGIN IMMEDIATE already excludes every other writer
        case FetchMany(rows=rows) | DeleteMany(rows=rows):
            cursor, sql = connection.cursor(), sqlite_each(statement)
            return [found for row in rows for found in cursor.execute(sql, row)]
        case _:
            connection.executemany(sqlite_each(statement), statement.rows)
            return []


def _bound(arg: Any) -> Any:
    return json.dumps(arg) if isinstance(arg, list | tuple) else arg


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _translated(error: sqlite3.Error) -> Exception:
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Unavailable("another process holds the metadata store's write lock", error=error)
        case sqlite3.SQLITE_FULL:
            return Unavailable("the metadata store's disk is full: free some space", error=error)
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY:
            return Unavailable("the metadata store's file cannot be used", error=error)
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return Corrupt("the metadata store's file is damaged", error=error)
        case _:
            return error


def _opening(path: Path | None, error: Exception) -> LakestreamError:
    if isinstance(error, sqlite3.Error):
        translated = _translated(error)
        if isinstance(translated, Corrupt) or _code(error) == sqlite3.SQLITE_BUSY:
            return translated  # type: ignore[return-value]
    return Misconfigured("the metadata store's file cannot be opened", path=path, error=error)
