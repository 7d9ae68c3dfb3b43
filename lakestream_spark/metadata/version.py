"""Which schema a metadata store has: asked at every start, without loading what could change it."""

from typing import Final

from lakestream_spark.metadata.database import Database, Exclusive, Execute, Fetch, Transaction

HEAD: Final = "0004"
"""The newest revision; a test holds it equal to the newest file in `migrations/versions`."""
_LOCK_KEY: Final = 0x6C616B65  # any number, the same in every version


async def is_current(database: Database) -> bool:
    """Whether the store has this software's schema already."""
    return await database.run(locked_version()) == HEAD


def locked_version() -> Transaction[str | None]:
    """The store's revision, None for a new store; no other process changes it until the end of
    the transaction that this is a part of."""
    yield Exclusive(_LOCK_KEY)
    yield Execute("CREATE TABLE IF NOT EXISTS alembic_version (version_num TEXT PRIMARY KEY)")
    found = yield Fetch("SELECT version_num FROM alembic_version")
    return found[0][0] if found else None
