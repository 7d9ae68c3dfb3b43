"""The first schema: topics, the extent index, producers, writers, leases, plans and intents."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _topics()
    _index()
    _writers()
    _table_side()


def _topics() -> None:
    op.create_table(
        "topics",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("partitions", sa.Integer, nullable=False),
        sa.Column("replication_factor", sa.Integer, nullable=False),
        sa.Column("config", sa.Text, nullable=False, comment="JSON object of strings"),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("deleted_ms", sa.BigInteger, comment="null while the topic lives"),
    )
    live = sa.text("deleted_ms IS NULL")
    op.create_index(
        "topics_live_name",
        "topics",
        ["name"],
        unique=True,
        sqlite_where=live,
        postgresql_where=live,
    )
    op.create_table(
        "partitions",
        sa.Column("id", _ROW_ID, primary_key=True, comment="never used again after a deletion"),
        sa.Column("topic_id", sa.Text, nullable=False),
        sa.Column("partition_index", sa.Integer, nullable=False),
        sa.Column("next_offset", sa.BigInteger, nullable=False, comment="the high watermark"),
        sa.Column("log_start", sa.BigInteger, nullable=False),
        sa.Column("table_end", sa.BigInteger, nullable=False),
        sa.Column(
            "first_unstable", sa.BigInteger, comment="the oldest open transaction's first offset"
        ),
        sa.UniqueConstraint("topic_id", "partition_index", name="partitions_place"),
        sqlite_autoincrement=True,
        postgresql_with={"fillfactor": 50},
    )


def _index() -> None:
    op.create_table(
        "segments",
        sa.Column("id", _ROW_ID, primary_key=True),
        sa.Column("broker_id", sa.Integer, nullable=False),
        sa.Column("broker_epoch", sa.BigInteger, nullable=False),
        sa.Column("n", sa.BigInteger, nullable=False),
        sa.Column("profile", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("live_extents", sa.Integer, nullable=False),
        sa.Column("live_bytes", sa.BigInteger, nullable=False),
        sa.Column(
            "unreferenced_ms", sa.BigInteger, comment="since when live_extents is 0, else null"
        ),
        sa.UniqueConstraint("broker_id", "broker_epoch", "n", name="segments_identity"),
        sqlite_autoincrement=True,
    )
    unreferenced = sa.text("unreferenced_ms IS NOT NULL")
    op.create_index(
        "segments_unreferenced",
        "segments",
        ["profile", "unreferenced_ms"],
        sqlite_where=unreferenced,
        postgresql_where=unreferenced,
    )
    op.create_table(
        "extents",
        sa.Column("partition_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("base_offset", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("next_offset", sa.BigInteger, nullable=False),
        sa.Column("segment_id", sa.BigInteger, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("max_timestamp", sa.BigInteger, nullable=False),
        sa.Column("length", sa.Integer, nullable=False),
        sa.Column("flags", sa.SmallInteger, nullable=False, comment="1: transactional"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "producers",
        sa.Column("partition_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("producer_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("last_ms", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column(
            "batches", sa.LargeBinary, nullable=False, comment="the last five, see producer_state"
        ),
        sqlite_with_rowid=False,
        postgresql_with={"fillfactor": 50},
    )


def _writers() -> None:
    op.create_table(
        "writers",
        sa.Column("broker_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("profile", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False, unique=True),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("last_n", sa.BigInteger, nullable=False, comment="0 before the first commit"),
        sa.Column("fenced", sa.SmallInteger, nullable=False),
        sa.Column("last_answer", sa.LargeBinary, comment="the receipt of segment last_n"),
    )
    op.create_table(
        "epochs",
        sa.Column("epoch", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("broker_id", sa.Integer, nullable=False),
        sa.Column("profile", sa.Text, nullable=False),
        sa.Column("last_n", sa.BigInteger, nullable=False),
        comment="every fenced epoch with the last n it committed",
    )
    op.create_table(
        "counters",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.BigInteger, nullable=False, comment="the last one handed out"),
    )


def _table_side() -> None:
    op.create_table(
        "leases",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.Text, comment="null when released"),
        sa.Column("beat", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "plans",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "intents",
        sa.Column("topic_id", sa.Text, primary_key=True),
        sa.Column("commit_id", sa.Text, nullable=False),
        sa.Column("plan", sa.BigInteger, nullable=False),
        sa.Column("lease_name", sa.Text, nullable=False),
        sa.Column("lease_epoch", sa.BigInteger, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
