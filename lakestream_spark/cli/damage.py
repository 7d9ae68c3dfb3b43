"""Files of SQLite that are damaged, told as such where a library takes that for an outage."""

import sqlite3
from typing import Final

from lakestream_spark.core.errors import Corrupt, LakestreamError

RESTORE: Final = "put a back-up of it in its place (see Back-up in README.md)"
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def judged(error: LakestreamError) -> LakestreamError:
    """The same error, or the damage that is behind it, with what to do."""
    if isinstance(error, Corrupt) and _is_damage(error.facts.get("error")):
        return Corrupt(f"{error.message}: {RESTORE}", **error.facts)
    # SQLAlchemy keeps the error of the database as `orig`.
    origin = getattr(error.__cause__, "orig", None)
    if _is_damage(origin):
        return Corrupt(f"the catalog's file is damaged: {RESTORE}", error=origin)
    return error


def _is_damage(error: object) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) if isinstance(error, sqlite3.Error) else 0
    return code & 0xFF in _DAMAGED
