"""What deleted topics leave behind: forgotten in portions, so that no commit waits long.

What always holds: a row is forgotten here only when its partition has no row any more or its topic
is deleted, so that nobody adds to it or changes it; what one process leaves half done the next one
finds by that alone. A topic created again under the same name has other ids and shares nothing.
"""

from collections.abc import Sequence
from typing import Any, Final

from lakestream_spark.metadata.database import Database, Exclusive, Fetch, Transaction
from lakestream_spark.metadata.references import PORTION, Portion, forget_extents, portions

_LOCK_KEY: Final = 0x72656D61  # any number that nothing else locks
_EVERYTHING: Final = (1 << 63) - 1
_AT_ONCE: Final = 10
"""Portions, of about a quarter of a second each."""
_PRODUCER: Final = "partition_id, producer_id"
_OF_TOPICS: Final = {
    "cells": "topic_id, partition_index, number",
    "quarantine": "topic_id, partition_index, base_offset",
    "table_changes": "topic_id, snapshot_id",
}
"""Tables and their keys."""
_LEFT_PARTITIONS: Final = (
    "WITH RECURSIVE found(id) AS (SELECT MIN(partition_id) FROM {table} UNION ALL "
    "SELECT (SELECT MIN(x.partition_id) FROM {table} x WHERE x.partition_id > found.id) "
    "FROM found WHERE found.id IS NOT NULL) SELECT id FROM found WHERE id IS NOT NULL "
    "AND NOT EXISTS (SELECT 1 FROM partitions p WHERE p.id = found.id)"
)
"""One look-up for each partition with rows in the table, however many rows it has."""
_LEFT_TOPICS: Final = (
    "SELECT t.id FROM topics t WHERE t.deleted_ms IS NOT NULL "
    "AND EXISTS (SELECT 1 FROM {table} x WHERE x.topic_id = t.id)"
)


class Remains:
    """Forgets what is left of deleted topics."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def forget_topic(self, topic_id: str, row_ids: Sequence[int], now_ms: int) -> None:
        """What a topic leaves that is deleted now, unless it is so much that whoever deletes it
        would wait for long: that is for `forget_all`, which somebody calls now and then."""
        left = await self._portions(row_ids)
        if len(left) <= _AT_ONCE:
            await self._forget_partitions(row_ids, left, now_ms)
            await self._forget_topics([topic_id])

    async def forget_all(self, now_ms: int) -> None:
        """Finish what deletions left half done."""
        for table in ("extents", "producers"):
            row_ids = await self._left(_LEFT_PARTITIONS, table)
            if row_ids:
                await self._forget_partitions(row_ids, await self._portions(row_ids), now_ms)
        for table in _OF_TOPICS:
            topic_ids = await self._left(_LEFT_TOPICS, table)
            if topic_ids:
                await self._forget_topics(topic_ids)

    async def _portions(self, row_ids: Sequence[int]) -> list[Portion]:
        every = [(row_id, _EVERYTHING) for row_id in row_ids]
        return await self._database.read(portions(every))

    async def _forget_partitions(
        self, row_ids: Sequence[int], extents: Sequence[Portion], now_ms: int
    ) -> None:
        """The extents and producers of partitions that have no row any more."""
        for portion in extents:
            await self._database.run(_forget_extents(portion, now_ms))
        await self._forget("producers", _PRODUCER, "partition_id = ANY($1::bigint[])", row_ids)

    async def _forget_topics(self, topic_ids: Sequence[str]) -> None:
        """What tables had to do with deleted topics."""
        for table, key in _OF_TOPICS.items():
            await self._forget(table, key, "topic_id = ANY($1::text[])", topic_ids)

    async def _left(self, sql: str, table: str) -> list[Any]:
        return await self._database.read(_first_column(sql.format(table=table)))

    async def _forget(
        self, table: str, key: str, where: str, ids: Sequence[int] | Sequence[str]
    ) -> None:
        while await self._database.run(_forget_rows(table, key, where, ids)) == PORTION:
            pass


def _first_column(sql: str) -> Transaction[list[Any]]:
    rows = yield Fetch(sql)
    return [row[0] for row in rows]


def _forget_extents(portion: Portion, now_ms: int) -> Transaction[None]:
    # There are no partitions to lock: two that forget the same would wait for each other.
    yield Exclusive(_LOCK_KEY)
    yield from forget_extents(portion, now_ms)


def _forget_rows(
    table: str, key: str, where: str, ids: Sequence[int] | Sequence[str]
) -> Transaction[int]:
    yield Exclusive(_LOCK_KEY)
    rows = yield Fetch(
        f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {where} LIMIT $2) "
        "RETURNING 1",
        (ids, PORTION),
    )
    return len(rows)
