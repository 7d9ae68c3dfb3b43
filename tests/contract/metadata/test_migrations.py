"""The schema: made, upgraded, refused when newer, and the same as `schema.py` says."""

import asyncio
import shutil
import sqlite3
from pathlib import Path

import asyncpg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.metadata import open_metadata, schema
from lakestream_spark.metadata.brokers import Incarnation, Node, Registration
from lakestream_spark.metadata.database import Execute, Fetch, Rows, Transaction
from lakestream_spark.metadata.group_offsets import Commit, Committed
from lakestream_spark.metadata.migrate import MIGRATIONS, migrate
from lakestream_spark.metadata.store import connect, services
from lakestream_spark.metadata.version import HEAD
from tests.support.clock import SimulatedClock

LATER = "later"
LATER_REVISION = """
import sqlalchemy as sa
from alembic import op

revision = "later"
down_revision = "{head}"


def upgrade() -> None:
    op.add_column("topics", sa.Column("owner", sa.Text))
    op.execute("UPDATE topics SET owner = 'of ' || name")
    {more}
"""


@pytest.fixture
async def database(url):
    opened = await connect(url)
    yield opened
    await opened.close()


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    """The real revisions and a later one."""
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    write_later(folder)
    return folder


def write_later(folder: Path, more: str = "") -> None:
    revision = LATER_REVISION.format(head=HEAD, more=more)
    (folder / "versions" / "later.py").write_text(revision)


def select(sql: str) -> Transaction[Rows]:
    return (yield Fetch(sql))


def execute(sql: str) -> Transaction[None]:
    yield Execute(sql)


INSERT_TOPIC = (
    "INSERT INTO topics (id, name, partitions, replication_factor, config, created_ms) "
    "VALUES ('1', 'orders', 1, 1, '{}', 0)"
)
TOPIC_ID = "6f1ed002-ab5d-4b2a-9c3f-0d4a1f6f7a01"
INSERT_PARTITION = (
    "INSERT INTO partitions (topic_id, partition_index, next_offset, log_start, table_end) "
    f"VALUES ('{TOPIC_ID}', 0, 5, 0, 5)"
)
VERSION = "SELECT version_num FROM alembic_version"


async def versions(database) -> list[str]:
    return [row[0] for row in await database.read(select(VERSION))]


async def test_an_empty_store_is_brought_to_the_newest_revision(database):
    await migrate(database)
    assert await versions(database) == [HEAD]


async def test_migrating_again_changes_nothing(database):
    await migrate(database)
    await database.run(execute(INSERT_TOPIC))
    await migrate(database)
    assert len(await database.read(select("SELECT id FROM topics"))) == 1


async def test_an_older_store_is_upgraded_and_keeps_its_rows(database, migrations):
    await migrate(database, migrations=migrations, to=HEAD)
    await database.run(execute(INSERT_TOPIC))
    await migrate(database, migrations=migrations)
    assert await versions(database) == [LATER]
    rows = await database.read(select("SELECT name, owner FROM topics"))
    assert [tuple(row) for row in rows] == [("orders", "of orders")]


async def test_the_first_release_is_upgraded_to_groups_and_keeps_its_log(database, clock):
    await migrate(database, to="0001")
    await database.run(execute(INSERT_TOPIC.replace("'1'", f"'{TOPIC_ID}'")))
    await database.run(execute(INSERT_PARTITION))
    await database.run(execute("INSERT INTO leases VALUES ('t', 3, 'a', 7)"))
    await migrate(database)
    metadata = await services(database, clock)
    topic = await metadata.topics.get("orders")
    partition = TopicPartition(topic.id, 0)
    assert (await metadata.tables.ends(topic.id))[0].high_watermark == 5
    assert await metadata.leases.look(["t"]) == {"t": "a"}
    lease = await metadata.leases.try_acquire("groups/1", "b", 1.0)
    assert lease is not None
    committed = Committed(partition, 4)
    await metadata.group_offsets.commit(lease, 1, [Commit("g", committed, 0)])
    assert await metadata.group_offsets.fetch("g", [partition]) == {partition: committed}
    node = Registration(Node(1, "h", 9092), Incarnation("m", "x"))
    assert await metadata.brokers.join(node) is None


async def test_a_newer_store_is_refused_with_both_versions(database, migrations):
    await migrate(database, migrations=migrations)
    with pytest.raises(Misconfigured, match=f"schema version {LATER}.* knows up to {HEAD}"):
        await migrate(database)
    assert await versions(database) == [LATER]


async def test_a_store_of_an_unknown_revision_is_refused_at_open(shared_url):
    clock = SimulatedClock()
    metadata = await open_metadata(shared_url, clock=clock)
    await metadata.database.run(execute("UPDATE alembic_version SET version_num = '9999'"))
    await metadata.close()
    with pytest.raises(Misconfigured, match="9999"):
        await open_metadata(shared_url, clock=clock)


async def test_a_failed_upgrade_leaves_the_store_as_it_was(database, migrations):
    await migrate(database, migrations=migrations, to=HEAD)
    await database.run(execute(INSERT_TOPIC))
    write_later(migrations, 'op.execute("INSERT INTO nowhere VALUES (1)")')
    with pytest.raises((sqlite3.Error, asyncpg.PostgresError)):
        await migrate(database, migrations=migrations)
    assert await versions(database) == [HEAD]
    (row,) = await database.read(select("SELECT * FROM topics"))
    assert len(row) == len(schema.topics.columns)


async def test_processes_that_start_at_once_upgrade_once(shared_url):
    clock = SimulatedClock()
    opening = [open_metadata(shared_url, clock=clock) for _ in range(5)]
    opened = await asyncio.gather(*opening)
    assert await versions(opened[0].database) == [HEAD]
    for metadata in opened:
        await metadata.close()


def test_the_newest_revision_is_the_one_that_a_start_looks_for():
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == HEAD


async def test_migrations_and_schema_agree_on_sqlite(tmp_path):
    database = await connect(f"sqlite:///{tmp_path}/metadata.db")
    await migrate(database)
    await database.close()
    engine = create_engine(f"sqlite:///{tmp_path}/metadata.db")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = compare_metadata(context, schema.METADATA)
    engine.dispose()
    assert differences == []


COLUMNS = """
    SELECT table_name, column_name, ordinal_position, data_type, is_nullable,
        replace(column_default, table_schema || '.', '')
    FROM information_schema.columns
    WHERE table_schema = $1 AND table_name <> 'alembic_version' ORDER BY 1, 3
"""
INDEXES = """
    SELECT tablename, indexname, replace(indexdef, schemaname || '.', '')
    FROM pg_indexes WHERE schemaname = $1 AND tablename <> 'alembic_version' ORDER BY 1, 2
"""
OPTIONS = """
    SELECT relname, reloptions FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
    WHERE nspname = $1 AND relkind = 'r' AND relname <> 'alembic_version' ORDER BY 1
"""


@pytest.mark.postgres
async def test_migrations_and_schema_agree_on_postgresql(postgres_url):
    database = await connect(postgres_url)
    await migrate(database)
    await database.close()
    connection = await asyncpg.connect(postgres_url)
    try:
        migrated = await connection.fetchval("SELECT current_schema()")
        async with connection.transaction():
            await connection.execute("CREATE SCHEMA declared")
            await connection.execute("SET LOCAL search_path = declared")
            dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
            for table in schema.METADATA.sorted_tables:
                await connection.execute(str(CreateTable(table).compile(dialect=dialect)))
                for index in table.indexes:
                    await connection.execute(str(CreateIndex(index).compile(dialect=dialect)))
            for query in (COLUMNS, INDEXES, OPTIONS):
                actual = [tuple(row) for row in await connection.fetch(query, migrated)]
                expected = [tuple(row) for row in await connection.fetch(query, "declared")]
                assert actual
                assert actual == expected
            await connection.execute("DROP SCHEMA declared CASCADE")
    finally:
        await connection.close()
