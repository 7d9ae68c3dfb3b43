"""Topics, their partitions and their configuration.

What always holds: a name belongs to at most one live topic; a topic's identity is its id; deleting
a topic forgets its partitions in one transaction, so that nothing is added to it and one created
again under the same name shares nothing with it; their extents and producers follow in portions.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID, uuid4

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import (
    InvalidPartitions,
    InvalidTopic,
    TopicExists,
    Transient,
    UnknownTopic,
)
from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata.database import (
    BIGINT,
    INT,
    TEXT,
    Database,
    Execute,
    Fetch,
    InsertMany,
    Row,
    Rows,
    Transaction,
)
from lakestream_spark.metadata.partitions import lock_partitions_of
from lakestream_spark.metadata.remains import Remains
from lakestream_spark.metadata.sizes import wal_bytes
from lakestream_spark.metadata.table_names import claim_table_name, lock_table_names
from lakestream_spark.metadata.topic_config import check_config

RESERVED: Final = frozenset(
    {"__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"}
)
"""Topics in which Kafka keeps what is in the metadata store here."""

MAX_PARTITIONS: Final = 10_000
"""Of a topic: each is a row, and all of them are made in one transaction."""

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_COLUMNS: Final = "id, name, partitions, replication_factor, config, created_ms"
_PARTITION: Final = {
    "topic_id": TEXT,
    "partition_index": INT,
    "next_offset": BIGINT,
    "log_start": BIGINT,
    "table_end": BIGINT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A live topic. `replication_factor` is what was asked for; it means nothing here."""

    id: TopicId
    name: str
    partitions: int
    replication_factor: int = 1
    config: Mapping[str, str] = field(default_factory=dict)
    created_ms: int

    def __post_init__(self) -> None:
        _check_legal(self.name)
        if self.partitions < 1 or self.replication_factor < 1:
            raise InvalidTopic(
                "a topic has at least one partition and one replica",
                partitions=self.partitions,
                replication_factor=self.replication_factor,
            )


class DeletedTopic(NamedTuple):
    """A topic as it was, and for how long it has been deleted."""

    topic: Topic
    for_ms: int


def check_name(name: str) -> None:
    """Raises `InvalidTopic` for a name that no new topic can have."""
    _check_legal(name)
    if name in RESERVED:
        raise InvalidTopic("the name is kept for Kafka's own use", name=name)


def check_partitions(count: int) -> None:
    """Raises `InvalidPartitions` for more than a topic can have."""
    if count > MAX_PARTITIONS:
        raise InvalidPartitions(f"a topic has at most {MAX_PARTITIONS} partitions, not {count}")


def _check_legal(name: str) -> None:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise InvalidTopic(
            "a topic name is 1 to 249 of the characters a-z A-Z 0-9 . _ - and not . or ..",
            name=name[:300],
        )


ConfigChange: TypeAlias = Callable[[Mapping[str, str]], Mapping[str, str | None]]
"""From a topic's settings to those it shall have."""


class Topics:
    """Creates, finds, changes and deletes topics."""

    def __init__(
        self, database: Database, clock: Clock, new_id: Callable[[], UUID] = uuid4
    ) -> None:
        self._database = database
        self._clock = clock
        self._new_id = new_id
        self._remains = Remains(database)

    async def create(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> Topic:
        """A new topic; raises `TopicExists`, `InvalidTopic` or `InvalidConfig`."""
        check_name(name)
        check_partitions(partitions)
        topic = Topic(
            id=TopicId(self._new_id()),
            name=name,
            partitions=partitions,
            replication_factor=replication_factor,
            config=check_config(config or {}),
            created_ms=self._clock.wall_ms(),
        )
        await self._database.run(_create(topic))
        return topic

    async def get(self, name: str) -> Topic:
        """The live topic of that name; raises `UnknownTopic`."""
        # No question to the store: PostgreSQL takes some of the bytes that clients send for errors.
        if not _NAME.fullmatch(name):
            raise UnknownTopic("no such topic", topic=name[:300])
        return await self._database.read(_find("name = $1", name))

    async def get_by_id(self, topic_id: TopicId) -> Topic:
        """The live topic of that id; raises `UnknownTopic`."""
        return await self._database.read(_find("id = $1", str(topic_id)))

    async def list(self) -> list[Topic]:
        """All live topics, by name."""
        return await self._database.read(_list())

    async def delete(self, topic_id: TopicId) -> None:
        """Forget the topic and all its records; raises `UnknownTopic`.

        Nobody finds it any more when this returns; of a long backlog rows may be left for
        `forget_remains`.
        """
        now_ms = self._clock.wall_ms()
        row_ids = await self._database.run(_delete(topic_id, now_ms))
        with suppress(Transient):  # It is deleted.
            await self._remains.forget_topic(str(topic_id), row_ids, now_ms)

    async def forget_remains(self) -> None:
        """Finish deletions that left something; safe beside them and beside itself."""
        await self._remains.forget_all(self._clock.wall_ms())

    async def add_partitions(self, topic_id: TopicId, total: int) -> Topic:
        """The topic with `total` partitions; raises `InvalidPartitions` unless it has fewer now."""
        check_partitions(total)
        return await self._database.run(_add_partitions(topic_id, total))

    async def alter_config(self, topic_id: TopicId, config: Mapping[str, str]) -> Topic:
        """The topic with `config` in place of the one it had."""
        return await self._database.run(_alter_config(topic_id, dict(config)))

    async def change_config(
        self, topic_id: TopicId, change: ConfigChange, *, validate_only: bool = False
    ) -> Topic:
        """The topic after `change`, or as it is when only validating; raises `InvalidConfig`.

        Nothing comes between reading and writing, so that two changes never undo each other.
        """
        return await self._database.run(_change_config(topic_id, change, validate_only))

    async def deleted(self) -> Sequence[DeletedTopic]:
        """Deleted topics of whose tables nobody has said yet that they are dropped or kept."""
        return await self._database.read(_deleted(self._clock.wall_ms()))

    async def settle_table(self, topic_id: TopicId) -> None:
        """A deleted topic's table is dropped, or is to be kept."""
        await self._database.run(_settle_table(topic_id))

    async def wal_bytes(self, topic_ids: Sequence[TopicId]) -> dict[TopicPartition, int]:
        """The size of what is still in the WAL, for every partition of these topics."""
        return await self._database.read(wal_bytes(topic_ids))


def _topic(row: Row) -> Topic:
    topic_id, name, partitions, replication_factor, config, created_ms = row
    return Topic(
        id=TopicId(UUID(topic_id)),
        name=name,
        partitions=partitions,
        replication_factor=replication_factor,
        config=json.loads(config),
        created_ms=created_ms,
    )


def _one(rows: Rows, wanted: object) -> Topic:
    if not rows:
        raise UnknownTopic("no such topic", topic=wanted)
    return _topic(rows[0])


def _find(condition: str, wanted: str) -> Transaction[Topic]:
    rows = yield Fetch(
        f"SELECT {_COLUMNS} FROM topics WHERE {condition} AND deleted_ms IS NULL", (wanted,)
    )
    return _one(rows, wanted)


def _list() -> Transaction[list[Topic]]:
    rows = yield Fetch(f"SELECT {_COLUMNS} FROM topics WHERE deleted_ms IS NULL ORDER BY name")
    return [_topic(row) for row in rows]


def _deleted(now_ms: int) -> Transaction[Sequence[DeletedTopic]]:
    rows = yield Fetch(
        f"SELECT deleted_ms, {_COLUMNS} FROM topics "
        "WHERE deleted_ms IS NOT NULL AND table_settled = 0 ORDER BY deleted_ms"
    )
    return [DeletedTopic(_topic(row[1:]), now_ms - row[0]) for row in rows]


def _settle_table(topic_id: TopicId) -> Transaction[None]:
    yield Execute("UPDATE topics SET table_settled = 1 WHERE id = $1", (str(topic_id),))


def _create(topic: Topic) -> Transaction[None]:
    yield from lock_table_names()
    rows = yield Fetch(
        "INSERT INTO topics (id, name, partitions, replication_factor, config, created_ms) "
        "VALUES ($1, $2, $3, $4, $5, $6) "
        "ON CONFLICT (name) WHERE deleted_ms IS NULL DO NOTHING RETURNING id",
        (
            str(topic.id),
            topic.name,
            topic.partitions,
            topic.replication_factor,
            json.dumps(topic.config),
            topic.created_ms,
        ),
    )
    if not rows:
        raise TopicExists("the topic exists already", topic=topic.name)
    yield from claim_table_name(topic.name, topic.config)
    yield from _insert_partitions(topic.id, range(topic.partitions))


def _insert_partitions(topic_id: TopicId, indexes: range) -> Transaction[None]:
    rows: list[Row] = [(str(topic_id), index, 0, 0, 0) for index in indexes]
    yield InsertMany("partitions", _PARTITION, rows)


def _lock(topic_id: TopicId) -> Transaction[Topic]:
    rows = yield Fetch(
        f"SELECT {_COLUMNS} FROM topics WHERE id = $1 AND deleted_ms IS NULL FOR UPDATE",
        (str(topic_id),),
    )
    return _one(rows, topic_id)


def _delete(topic_id: TopicId, now_ms: int) -> Transaction[list[int]]:
    """The row ids of the partitions that the topic had."""
    yield from _lock(topic_id)
    rows = yield from lock_partitions_of(topic_id)
    for table in ("partitions", "intents", "problems", "flushes"):
        yield Execute(f"DELETE FROM {table} WHERE topic_id = $1", (str(topic_id),))
    yield Execute("UPDATE topics SET deleted_ms = $2 WHERE id = $1", (str(topic_id), now_ms))
    return [row[0] for row in rows]


def _add_partitions(topic_id: TopicId, total: int) -> Transaction[Topic]:
    topic = yield from _lock(topic_id)
    if total <= topic.partitions:
        raise InvalidPartitions(
            "partitions can only be added", partitions=topic.partitions, asked_for=total
        )
    yield from _insert_partitions(topic_id, range(topic.partitions, total))
    rows = yield Fetch(
        f"UPDATE topics SET partitions = $2 WHERE id = $1 RETURNING {_COLUMNS}",
        (str(topic_id), total),
    )
    return _topic(rows[0])


def _change_config(
    topic_id: TopicId, change: ConfigChange, validate_only: bool
) -> Transaction[Topic]:
    yield from lock_table_names()
    topic = yield from _lock(topic_id)
    config = check_config(change(topic.config))
    yield from claim_table_name(topic.name, config)
    if not validate_only:
        topic = yield from _alter_config(topic_id, config)
    return topic


def _alter_config(topic_id: TopicId, config: dict[str, str]) -> Transaction[Topic]:
    rows = yield Fetch(
        f"UPDATE topics SET config = $2 WHERE id = $1 AND deleted_ms IS NULL RETURNING {_COLUMNS}",
        (str(topic_id), json.dumps(config)),
    )
    return _one(rows, topic_id)
