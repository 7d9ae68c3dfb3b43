"""Statements in the words of both databases."""

import pytest

from lakestream_spark.metadata.database import (
    BIGINT,
    TEXT,
    DeleteMany,
    FetchMany,
    InsertMany,
    UpdateMany,
)
from lakestream_spark.metadata.dialect import postgres_many, sqlite_each, sqlite_sql

GIVEN = {"id": BIGINT, "name": TEXT}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT $2, $1, $2", "SELECT ?2, ?1, ?2"),
        ("SELECT $10", "SELECT ?10"),
        ("a <= $3::float8 * b", "a <= ?3 * b"),
        (
            "id = ANY($1::bigint[]) AND n = ANY($2::text[])",
            "id IN (SELECT value FROM json_each(?1)) AND n IN (SELECT value FROM json_each(?2))",
        ),
        ("SELECT 1 ORDER BY id FOR UPDATE", "SELECT 1 ORDER BY id"),
        ("SELECT 1 FOR SHARE", "SELECT 1"),
        ("IN (SELECT 1 LIMIT $2 FOR UPDATE SKIP LOCKED)", "IN (SELECT 1 LIMIT ?2)"),
    ],
)
def test_a_statement_in_sqlites_words(sql, expected):
    assert sqlite_sql(sql) == expected


MANY = {
    "fetch": (
        FetchMany("SELECT t.x FROM t WHERE t.id = r.id AND t.name = r.name", GIVEN, []),
        "SELECT t.x FROM t WHERE t.id = ?1 AND t.name = ?2",
        (
            "SELECT q.* FROM unnest($1::bigint[], $2::text[]) AS r(id, name) "
            "CROSS JOIN LATERAL (SELECT t.x FROM t WHERE t.id = r.id AND t.name = r.name) AS q"
        ),
    ),
    "insert": (
        InsertMany("t", GIVEN, []),
        "INSERT INTO t (id, name) VALUES (?1, ?2)",
        (
            "INSERT INTO t (id, name) SELECT id, name "
            "FROM unnest($1::bigint[], $2::text[]) AS r(id, name)"
        ),
    ),
    "insert or not": (
        InsertMany("t", {"id": BIGINT}, [], "(id) DO NOTHING"),
        "INSERT INTO t (id) VALUES (?1) ON CONFLICT (id) DO NOTHING",
        (
            "INSERT INTO t (id) SELECT id FROM unnest($1::bigint[]) AS r(id) "
            "ON CONFLICT (id) DO NOTHING"
        ),
    ),
    "update": (
        UpdateMany("t", ("id",), GIVEN, []),
        "UPDATE t SET name = ?2 WHERE t.id = ?1",
        (
            "UPDATE t SET name = r.name "
            "FROM unnest($1::bigint[], $2::text[]) AS r(id, name) WHERE t.id = r.id"
        ),
    ),
    "delete": (
        DeleteMany("t", "t.id < r.id", {"id": BIGINT}, [], "name"),
        "DELETE FROM t WHERE t.id < ?1 RETURNING name",
        "DELETE FROM t USING unnest($1::bigint[]) AS r(id) WHERE t.id < r.id RETURNING name",
    ),
}


@pytest.mark.parametrize(("statement", "sqlite", "postgres"), MANY.values(), ids=MANY)
def test_a_statement_for_many_rows(statement, sqlite, postgres):
    assert sqlite_each(statement) == sqlite
    assert postgres_many(statement) == postgres
