"""The few differences between SQLite and PostgreSQL, as pure functions from statement to SQL.

SQLite gets `?1` for `$1`, `json_each` for arrays and no row locks (its write transactions exclude
each other); set-based statements run once per row there and once with `unnest` in PostgreSQL.
"""

import re
from functools import lru_cache

from lakestream_spark.metadata.database import (
    DeleteMany,
    FetchMany,
    Given,
    InsertMany,
    Many,
    UpdateMany,
)

_ANY = re.compile(r"= ANY\(\$(\d+)::\w+\[\]\)")
_LOCK = re.compile(r"\s+FOR (UPDATE|SHARE)( SKIP LOCKED)?\b")
_CAST = re.compile(r"(\$\d+)::\w+")
_PLACE = re.compile(r"\$(\d+)")
_GIVEN = re.compile(r"\br\.(\w+)")


@lru_cache(maxsize=512)
def sqlite_sql(sql: str) -> str:
    """A single statement in SQLite's words."""
    sql = _ANY.sub(r"IN (SELECT value FROM json_each(?\1))", sql)
    return _PLACE.sub(r"?\1", _CAST.sub(r"\1", _LOCK.sub("", sql)))


def sqlite_each(statement: Many) -> str:
    """The statement that SQLite runs once for each row, with the row's columns as parameters."""
    columns = tuple(statement.given)
    match statement:
        case FetchMany(sql=sql):
            return _per_row(sql, columns)
        case DeleteMany(table=table, where=where, returning=returning):
            return _per_row(f"DELETE FROM {table} WHERE {where} RETURNING {returning}", columns)
        case InsertMany(table=table, on_conflict=on_conflict):
            values = ", ".join(f"?{n}" for n in range(1, len(columns) + 1))
            insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"
            return insert + _conflict(on_conflict)
        case UpdateMany(table=table, key=key):
            return _per_row(
                f"UPDATE {table} SET {_sets(key, columns)} WHERE {_match(table, key)}", columns
            )


@lru_cache(maxsize=512)
def _per_row(sql: str, columns: tuple[str, ...]) -> str:
    places = {name: f"?{n}" for n, name in enumerate(columns, 1)}
    return _GIVEN.sub(lambda match: places[match[1]], sqlite_sql(sql))


def postgres_many(statement: Many) -> str:
    """The one statement that PostgreSQL runs for all rows, with one array per column."""
    given = _unnest(statement.given)
    columns = tuple(statement.given)
    match statement:
        case FetchMany(sql=sql):
            return f"SELECT q.* FROM {given} CROSS JOIN LATERAL ({sql}) AS q"
        case DeleteMany(table=table, where=where, returning=returning):
            return f"DELETE FROM {table} USING {given} WHERE {where} RETURNING {returning}"
        case InsertMany(table=table, on_conflict=on_conflict):
            names = ", ".join(columns)
            return f"INSERT INTO {table} ({names}) SELECT {names} FROM {given}" + _conflict(
                on_conflict
            )
        case UpdateMany(table=table, key=key):
            sets = _sets(key, columns)
            return f"UPDATE {table} SET {sets} FROM {given} WHERE {_match(table, key)}"


def _unnest(given: Given) -> str:
    arrays = ", ".join(f"${n}::{kind}[]" for n, kind in enumerate(given.values(), 1))
    return f"unnest({arrays}) AS r({', '.join(given)})"


def _sets(key: tuple[str, ...], columns: tuple[str, ...]) -> str:
    return ", ".join(f"{name} = r.{name}" for name in columns if name not in key)


def _match(table: str, key: tuple[str, ...]) -> str:
    return " AND ".join(f"{table}.{name} = r.{name}" for name in key)


def _conflict(on_conflict: str | None) -> str:
    return f" ON CONFLICT {on_conflict}" if on_conflict else ""
