"""The tables of the metadata store, as they are now. `migrations/` tells how they came to be.

    topics ──< partitions ──< extents >── segments          where the bytes of an offset are
                          └─< producers                     idempotence, outlives the extents
    writers, epochs                                         who may commit segments, who no longer
    leases, plans, intents, flushes                         the table's side of the log
    jobs, problems, quarantine                              who works on it, what stops it
    cells, table_changes                                    what went into it, what others changed
    groups ──< group_offsets                                consumer groups and what they committed
    brokers                                                 who serves now
    counters                                                numbers that are never handed out twice

Nothing here has a foreign key: rows are kept consistent by the transactions, which lock them in the
order lease, writer, topic, partitions by id, segments by id.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)

METADATA: Final = MetaData()

_RowId = BigInteger().with_variant(Integer, "sqlite")

topics = Table(
    "topics",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("partitions", Integer, nullable=False),
    Column("replication_factor", Integer, nullable=False),
    Column("config", Text, nullable=False, comment="JSON object of strings"),
    Column("created_ms", BigInteger, nullable=False),
    Column("deleted_ms", BigInteger, comment="null while the topic lives"),
    Column(
        "table_settled",
        SmallInteger,
        nullable=False,
        server_default="0",
        comment="1 when a deleted topic's table was dropped or is to be kept",
    ),
    Index(
        "topics_live_name",
        "name",
        unique=True,
        sqlite_where=text("deleted_ms IS NULL"),
        postgresql_where=text("deleted_ms IS NULL"),
    ),
)

partitions = Table(
    "partitions",
    METADATA,
    Column("id", _RowId, primary_key=True, comment="never used again after a deletion"),
    Column("topic_id", Text, nullable=False),
    Column("partition_index", Integer, nullable=False),
    Column("next_offset", BigInteger, nullable=False, comment="the high watermark"),
    Column("log_start", BigInteger, nullable=False),
    Column("table_end", BigInteger, nullable=False),
    Column("first_unstable", BigInteger, comment="the oldest open transaction's first offset"),
    UniqueConstraint("topic_id", "partition_index", name="partitions_place"),
    sqlite_autoincrement=True,
    postgresql_with={"fillfactor": 50},
)

segments = Table(
    "segments",
    METADATA,
    Column("id", _RowId, primary_key=True),
    Column("broker_id", Integer, nullable=False),
    Column("broker_epoch", BigInteger, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("profile", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("live_extents", Integer, nullable=False),
    Column("live_bytes", BigInteger, nullable=False),
    Column("unreferenced_ms", BigInteger, comment="since when live_extents is 0, else null"),
    UniqueConstraint("broker_id", "broker_epoch", "n", name="segments_identity"),
    Index(
        "segments_unreferenced",
        "profile",
        "unreferenced_ms",
        sqlite_where=text("unreferenced_ms IS NOT NULL"),
        postgresql_where=text("unreferenced_ms IS NOT NULL"),
    ),
    sqlite_autoincrement=True,
)

extents = Table(
    "extents",
    METADATA,
    Column("partition_id", BigInteger, primary_key=True, autoincrement=False),
    Column("base_offset", BigInteger, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("segment_id", BigInteger, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("max_timestamp", BigInteger, nullable=False),
    Column("length", Integer, nullable=False),
    Column("flags", SmallInteger, nullable=False, comment="1: transactional"),
    sqlite_with_rowid=False,
)

producers = Table(
    "producers",
    METADATA,
    Column("partition_id", BigInteger, primary_key=True, autoincrement=False),
    Column("producer_id", BigInteger, primary_key=True, autoincrement=False),
    Column("last_ms", BigInteger, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("batches", LargeBinary, nullable=False, comment="the last five, see producer_state"),
    sqlite_with_rowid=False,
    postgresql_with={"fillfactor": 50},
)

writers = Table(
    "writers",
    METADATA,
    Column("broker_id", Integer, primary_key=True, autoincrement=False),
    Column("profile", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False, unique=True),
    Column("beat", BigInteger, nullable=False),
    Column("last_n", BigInteger, nullable=False, comment="0 before the first commit"),
    Column("fenced", SmallInteger, nullable=False),
    Column("last_answer", LargeBinary, comment="the receipt of segment last_n"),
)

epochs = Table(
    "epochs",
    METADATA,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("broker_id", Integer, nullable=False),
    Column("profile", Text, nullable=False),
    Column("last_n", BigInteger, nullable=False),
    comment="every fenced epoch with the last n it committed",
)

leases = Table(
    "leases",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, comment="null when released"),
    Column("beat", BigInteger, nullable=False),
)

counters = Table(
    "counters",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False, comment="the last one handed out"),
)

plans = Table(
    "plans",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
    Column("job", Text, nullable=False, server_default="", comment="who carries the plan out"),
    Index("plans_of_job", "job", "number"),
)

intents = Table(
    "intents",
    METADATA,
    Column("topic_id", Text, primary_key=True),
    Column("commit_id", Text, nullable=False),
    Column("plan", BigInteger, nullable=False),
    Column("lease_name", Text, nullable=False),
    Column("lease_epoch", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)

groups = Table(
    "groups",
    METADATA,
    Column("group_id", Text, primary_key=True),
    Column("slot", Integer, nullable=False, comment="whose lease guards the group's rows"),
    Column("protocol_type", Text, comment="null for a group that only commits offsets"),
    Column("generation", Integer, nullable=False),
    Column("empty_since_ms", BigInteger, comment="null while the group has members"),
    Index("groups_slot", "slot"),
)

group_offsets = Table(
    "group_offsets",
    METADATA,
    Column("group_id", Text, primary_key=True),
    Column("topic_id", Text, primary_key=True),
    Column("partition_index", Integer, primary_key=True, autoincrement=False),
    Column("committed_offset", BigInteger, nullable=False),
    Column("leader_epoch", Integer, nullable=False, comment="-1 when the client named none"),
    Column("metadata", LargeBinary, nullable=False, comment="the client's text in UTF-8"),
    Column("commit_ms", BigInteger, nullable=False),
    Column("expire_ms", BigInteger, comment="only when the client asked for its own retention"),
    sqlite_with_rowid=False,
    postgresql_with={"fillfactor": 50},
)

brokers = Table(
    "brokers",
    METADATA,
    Column("node_id", Integer, primary_key=True, autoincrement=False),
    Column("incarnation", Text, nullable=False, comment="names one life of the process"),
    Column("host", Text, nullable=False),
    Column("port", Integer, nullable=False),
    Column("rack", Text),
    Column("beat", BigInteger, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
)

jobs = Table(
    "jobs",
    METADATA,
    Column("job_id", Text, primary_key=True, comment="names one life of the process"),
    Column("kind", Text, nullable=False),
    Column("beat", BigInteger, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("last_success_ms", BigInteger, comment="null before the first"),
    Column("about", Text, nullable=False, comment="JSON object, for people"),
)

problems = Table(
    "problems",
    METADATA,
    Column("topic_id", Text, primary_key=True),
    Column(
        "partition_index",
        Integer,
        primary_key=True,
        autoincrement=False,
        comment="-1 when it stops the whole table",
    ),
    Column("at_offset", BigInteger),
    Column("snapshot_id", BigInteger),
    Column("sentence", Text, nullable=False),
    Column("remedy", Text, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
)

flushes = Table(
    "flushes",
    METADATA,
    Column("topic_id", Text, primary_key=True),
    Column("partition_index", Integer, primary_key=True, autoincrement=False),
    Column("wanted_end", BigInteger, nullable=False),
)

quarantine = Table(
    "quarantine",
    METADATA,
    Column("topic_id", Text, primary_key=True),
    Column("partition_index", Integer, primary_key=True, autoincrement=False),
    Column("base_offset", BigInteger, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("path", Text, nullable=False, comment="where the batch's bytes are kept"),
    Column("reason", Text, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
)

cells = Table(
    "cells",
    METADATA,
    Column("topic_id", Text, primary_key=True),
    Column("partition_index", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("base_offset", BigInteger, nullable=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("checksum", BigInteger, nullable=False),
    Column("holes", Text, nullable=False, comment="JSON: offsets that never had a row"),
)

table_changes = Table(
    "table_changes",
    METADATA,
    Column("topic_id", Text, primary_key=True),
    Column("snapshot_id", BigInteger, primary_key=True, autoincrement=False),
    Column("sequence_number", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("operation", Text, nullable=False),
    Column("engine", Text, nullable=False),
    Column("body", Text, nullable=False, comment="JSON: what changed, by cell"),
)
