"""What went into the tables, by cells of offsets, and what others took out of them."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "cells",
        sa.Column("topic_id", sa.Text, primary_key=True),
        sa.Column("partition_index", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("base_offset", sa.BigInteger, nullable=False),
        sa.Column("next_offset", sa.BigInteger, nullable=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("checksum", sa.BigInteger, nullable=False),
        sa.Column("holes", sa.Text, nullable=False, comment="JSON: offsets that never had a row"),
    )
    op.create_table(
        "table_changes",
        sa.Column("topic_id", sa.Text, primary_key=True),
        sa.Column("snapshot_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("sequence_number", sa.BigInteger, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("operation", sa.Text, nullable=False),
        sa.Column("engine", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False, comment="JSON: what changed, by cell"),
    )
