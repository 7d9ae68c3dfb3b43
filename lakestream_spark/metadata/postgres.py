"""PostgreSQL: the store for many hosts, through asyncpg.

What always holds: write transactions run at READ COMMITTED and take the row locks they need
themselves; reads come from one snapshot and have their own connections, so that they never keep a
commit waiting; a lost connection means `Unavailable` until COMMIT was sent, `OutcomeUnknown` after.
"""

import asyncio
from typing import Any, Final, TypeVar

import asyncpg

from lakestream_spark.core.errors import (
    Corrupt,
    Misconfigured,
    OutcomeUnknown,
    Transient,
    Unavailable,
)
from lakestream_spark.metadata.database import (
    Exclusive,
    Execute,
    Fetch,
    Notify,
    Rows,
    Statement,
    Transaction,
)
from lakestream_spark.metadata.dialect import postgres_many

T = TypeVar("T")

CONNECTIONS: Final = 4
"""At most this many for writing and as many for reading."""
TIMEOUT_S: Final = 30.0
ASLEEP_AFTER_S = 10.0
"""Idle for so long in a transaction, a process counts as asleep: the server rolls it back."""
_CHANNEL: Final = "lakestream"
_READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WRITE: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"

_LOST = (
    OSError,  # TimeoutError is one, too
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what is left of a connection that broke in a statement
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)
_GONE = (
    *_LOST,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,  # a standby, during a fail-over
)
_REFUSED = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)
_CONFLICT = (asyncpg.TransactionRollbackError, asyncpg.LockNotAvailableError)
_DAMAGED = (asyncpg.DataCorruptedError, asyncpg.IndexCorruptedError)


class PostgresDatabase:
    """Transactions on one PostgreSQL database."""

    dialect_name = "postgresql"

    def __init__(self, writes: Any, reads: Any) -> None:
        """Built by `open`, from two asyncpg pools."""
        self._writes = writes
        self._reads = reads
        self._listener: Any = None
        self._notified = asyncio.Event()

    @classmethod
    async def open(cls, url: str) -> "PostgresDatabase":
        """Connect; raises `Misconfigured` when the server refuses, `Unavailable` if it is gone."""
        writes = await _pool(url)
        try:
            return cls(writes, await _pool(url))
        except BaseException:
            await writes.close()
            raise

    async def run(self, tx: Transaction[T]) -> T:
        return await _transact(self._writes, _WRITE, tx)

    async def read(self, tx: Transaction[T]) -> T:
        return await _transact(self._reads, _READ, tx)

    async def changed(self, within_s: float) -> None:
        try:
            await self._listen()
            async with asyncio.timeout(within_s):
                await self._notified.wait()
        except (*_LOST, asyncpg.PostgresError):
            # The time is over (TimeoutError is an OSError), or nobody can notify us: look anyway.
            return
        self._notified.clear()

    async def _listen(self) -> None:
        if self._listener is not None and not self._listener.is_closed():
            return
        self._listener = await self._reads.acquire(timeout=TIMEOUT_S)
        await self._listener.add_listener(_CHANNEL, lambda *_: self._notified.set())
        self._notified.set()  # What was committed before nobody told us.

    async def close(self) -> None:
        if self._listener is not None:
            await self._reads.release(self._listener)
        await self._writes.close()
        await self._reads.close()


async def _pool(url: str) -> Any:
    try:
        return await asyncpg.create_pool(
            url,
            min_size=1,
            max_size=CONNECTIONS,
            command_timeout=TIMEOUT_S,
            reset=_nothing_to_reset,
            server_settings={
                "application_name": "lakestream",
                "jit": "off",
                # A process that sleeps or is cut off in a transaction would keep its locks.
                "idle_in_transaction_session_timeout": f"{ASLEEP_AFTER_S * 1000:.0f}ms",
            },
        )
    except (*_LOST, asyncpg.PostgresError) as error:
        raise _translated(error) from error


async def _nothing_to_reset(connection: Any) -> None:
    """Transactions leave no session state behind, and a round trip per release would be wasted."""


async def _transact(pool: Any, begin: str, tx: Transaction[T]) -> T:
    in_doubt = False
    try:
        async with pool.acquire(timeout=TIMEOUT_S) as connection:
            try:
                await connection.execute(begin)
                result = await _drive(connection, tx)
                in_doubt = begin is _WRITE
                await connection.execute("COMMIT")
                return result
            except _LOST:
                # Nobody knows what state it is in; the pool must not hand it out again.
                connection.terminate()
                raise
            except BaseException:
                await _roll_back(connection)
                raise
    except _LOST as error:
        if in_doubt:
            raise OutcomeUnknown("the connection was lost while committing", error=error) from error
        raise _translated(error) from error
    except asyncpg.PostgresError as error:
        raise _translated(error) from error
    finally:
        tx.close()


async def _roll_back(connection: Any) -> None:
    try:
        await connection.execute("ROLLBACK")
    except (*_LOST, asyncpg.PostgresError):
        connection.terminate()


async def _drive(connection: Any, tx: Transaction[T]) -> T:
    try:
        statement = next(tx)
        while True:
            statement = tx.send(await _execute(connection, statement))
    except StopIteration as stop:
        result: T = stop.value
        return result


async def _execute(connection: Any, statement: Statement) -> Rows:
    match statement:
        case Fetch(sql=sql, args=args) | Execute(sql=sql, args=args):
            rows: Rows = await connection.fetch(sql, *args)
        case Notify():
            rows = await connection.fetch(f"NOTIFY {_CHANNEL}")
        case Exclusive(key=key):
            rows = await connection.fetch("SELECT pg_advisory_xact_lock($1)", key)
        case _ if not statement.rows:
            rows = []
        case _:
            columns = zip(*statement.rows, strict=True)
            rows = await connection.fetch(postgres_many(statement), *columns)
    return rows


def _translated(error: Exception) -> Exception:
    """What the caller does about an error that left nothing behind."""
    if isinstance(error, asyncpg.DiskFullError):
        return Unavailable("the metadata store's disk is full: free some space", error=error)
    if isinstance(error, _CONFLICT):
        return Transient("another transaction was in the way", error=error)
    if isinstance(error, _REFUSED):
        return Misconfigured("PostgreSQL refuses this user or database", error=error)
    if isinstance(error, _DAMAGED):
        return Corrupt("the metadata store is damaged", error=error)
    if isinstance(error, _GONE):
        return Unavailable("the metadata store does not answer", error=error)
    return error
