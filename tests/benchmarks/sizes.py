"""How large a metadata store is: what its live rows and indexes need, and what its files take.

Live bytes are those of a fresh copy of all tables with their indexes: `VACUUM INTO` in SQLite, the
same tables made anew beside the old ones in PostgreSQL (as VACUUM FULL would write them, but
without undoing the bloat that a long run has and that the file size should show).
"""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg

_OPTIONS = (
    "SELECT c.relname, c.reloptions FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind = 'r' AND n.nspname = current_schema() ORDER BY c.relname"
)


class Size(NamedTuple):
    """Bytes of a metadata store."""

    live: int
    on_disk: int


async def size_of(url: str) -> Size:
    """The size of the store at `url`, now."""
    if url.startswith("sqlite:///"):
        return _sqlite_size(Path(url.removeprefix("sqlite:///")))
    connection = await asyncpg.connect(url)
    try:
        return await _postgres_size(connection)
    finally:
        await connection.close()


def _sqlite_size(path: Path) -> Size:
    copy = path.with_name("copy.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    live = copy.stat().st_size
    copy.unlink()
    return Size(live, _bytes(path.parent.glob(f"{path.name}*")))


def _bytes(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files)


async def _postgres_size(connection: Any) -> Size:
    live = on_disk = 0
    for table, options in await connection.fetch(_OPTIONS):
        on_disk += await connection.fetchval("SELECT pg_total_relation_size($1::regclass)", table)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(f"CREATE TABLE live_copy (LIKE {table} INCLUDING ALL)")
        if options:
            await connection.execute(f"ALTER TABLE live_copy SET ({', '.join(options)})")
        await connection.execute(f"INSERT INTO live_copy SELECT * FROM {table}")
        live += await connection.fetchval("SELECT pg_total_relation_size('live_copy'::regclass)")
        await transaction.rollback()
    return Size(live, on_disk)
