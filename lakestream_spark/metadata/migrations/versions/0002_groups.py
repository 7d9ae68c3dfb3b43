"""Consumer groups with their committed offsets, and the registry of brokers."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    _groups()
    _brokers()


def _groups() -> None:
    op.create_table(
        "groups",
        sa.Column("group_id", sa.Text, primary_key=True),
        sa.Column(
            "slot", sa.Integer, nullable=False, comment="whose lease guards the group's rows"
        ),
        sa.Column("protocol_type", sa.Text, comment="null for a group that only commits offsets"),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("empty_since_ms", sa.BigInteger, comment="null while the group has members"),
    )
    op.create_index("groups_slot", "groups", ["slot"])
    op.create_table(
        "group_offsets",
        sa.Column("group_id", sa.Text, primary_key=True),
        sa.Column("topic_id", sa.Text, primary_key=True),
        sa.Column("partition_index", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("committed_offset", sa.BigInteger, nullable=False),
        sa.Column(
            "leader_epoch", sa.Integer, nullable=False, comment="-1 when the client named none"
        ),
        sa.Column("metadata", sa.LargeBinary, nullable=False, comment="the client's text in UTF-8"),
        sa.Column("commit_ms", sa.BigInteger, nullable=False),
        sa.Column(
            "expire_ms", sa.BigInteger, comment="only when the client asked for its own retention"
        ),
        sqlite_with_rowid=False,
        postgresql_with={"fillfactor": 50},
    )


def _brokers() -> None:
    op.create_table(
        "brokers",
        sa.Column("node_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("incarnation", sa.Text, nullable=False, comment="names one life of the process"),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("port", sa.Integer, nullable=False),
        sa.Column("rack", sa.Text),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("started_ms", sa.BigInteger, nullable=False),
    )
