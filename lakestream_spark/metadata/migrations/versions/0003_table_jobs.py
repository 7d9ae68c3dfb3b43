"""The jobs that move records into tables, what stops them, and what was set aside."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column(
        "topics",
        sa.Column(
            "table_settled",
            sa.SmallInteger,
            nullable=False,
            server_default="0",
            comment="1 when a deleted topic's table was dropped or is to be kept",
        ),
    )
    op.add_column(
        "plans",
        sa.Column(
            "job", sa.Text, nullable=False, server_default="", comment="who carries the plan out"
        ),
    )
    op.create_index("plans_of_job", "plans", ["job", "number"])
    op.create_table(
        "jobs",
        sa.Column("job_id", sa.Text, primary_key=True, comment="names one life of the process"),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("started_ms", sa.BigInteger, nullable=False),
        sa.Column("last_success_ms", sa.BigInteger, comment="null before the first"),
        sa.Column("about", sa.Text, nullable=False, comment="JSON object, for people"),
    )
    op.create_table(
        "problems",
        sa.Column("topic_id", sa.Text, primary_key=True),
        sa.Column(
            "partition_index",
            sa.Integer,
            primary_key=True,
            autoincrement=False,
            comment="-1 when it stops the whole table",
        ),
        sa.Column("at_offset", sa.BigInteger),
        sa.Column("snapshot_id", sa.BigInteger),
        sa.Column("sentence", sa.Text, nullable=False),
        sa.Column("remedy", sa.Text, nullable=False),
        sa.Column("since_ms", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "flushes",
        sa.Column("topic_id", sa.Text, primary_key=True),
        sa.Column("partition_index", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("wanted_end", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "quarantine",
        sa.Column("topic_id", sa.Text, primary_key=True),
        sa.Column("partition_index", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("base_offset", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("next_offset", sa.BigInteger, nullable=False),
        sa.Column("path", sa.Text, nullable=False, comment="where the batch's bytes are kept"),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("since_ms", sa.BigInteger, nullable=False),
    )
