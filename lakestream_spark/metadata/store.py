"""Opens a metadata store by its URL and brings it to this version's schema."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.metadata.backlog import Backlog
from lakestream_spark.metadata.brokers import Brokers
from lakestream_spark.metadata.cells import Cells
from lakestream_spark.metadata.database import Database, Fetch, Transaction
from lakestream_spark.metadata.extents import SqlExtentIndex
from lakestream_spark.metadata.group_offsets import GroupOffsets
from lakestream_spark.metadata.jobs import Jobs
from lakestream_spark.metadata.leases import Leases
from lakestream_spark.metadata.ledger import SqlSegmentLedger
from lakestream_spark.metadata.overview import Overview
from lakestream_spark.metadata.partitions import PartitionIds
from lakestream_spark.metadata.problems import Problems
from lakestream_spark.metadata.producers import Producers
from lakestream_spark.metadata.retention import Retention
from lakestream_spark.metadata.sequencer import SqlSequencer
from lakestream_spark.metadata.sqlite import SqliteDatabase
from lakestream_spark.metadata.tables import Tables
from lakestream_spark.metadata.topics import Topics
from lakestream_spark.metadata.version import is_current
from lakestream_spark.metadata.writers import Writers


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The services on one metadata store."""

    database: Database
    topics: Topics
    sequencer: SqlSequencer
    extents: SqlExtentIndex
    ledger: SqlSegmentLedger
    writers: Writers
    leases: Leases
    group_offsets: GroupOffsets
    tables: Tables
    cells: Cells
    backlog: Backlog
    problems: Problems
    jobs: Jobs
    producers: Producers
    retention: Retention
    brokers: Brokers
    overview: Overview

    async def ping(self) -> None:
        """Raise what a request would meet when the store does not answer."""
        await self.database.read(_ping())

    async def close(self) -> None:
        await self.database.close()


def _ping() -> Transaction[None]:
    yield Fetch("SELECT 1")


async def open_metadata(url: str, *, clock: Clock, new_id: Callable[[], UUID] = uuid4) -> Metadata:
    """The store at `sqlite:///path`, `sqlite://` (in memory) or `postgresql://…`, upgraded.

    Raises `Misconfigured` for another URL or a store of a newer version.
    """
    return await services(await connect(url), clock, new_id)


async def services(
    database: Database, clock: Clock, new_id: Callable[[], UUID] = uuid4
) -> Metadata:
    """The services on an open database, brought to this version's schema."""
    try:
        if not await is_current(database):
            await _upgrade(database)
    except BaseException:
        await database.close()
        raise
    ids = PartitionIds()
    return Metadata(
        database=database,
        topics=Topics(database, clock, new_id),
        sequencer=SqlSequencer(database, ids, clock),
        extents=SqlExtentIndex(database),
        ledger=SqlSegmentLedger(database, ids, clock),
        writers=Writers(database),
        leases=Leases(database, clock),
        group_offsets=GroupOffsets(database),
        tables=Tables(database, clock),
        cells=Cells(database),
        backlog=Backlog(database),
        problems=Problems(database),
        jobs=Jobs(database, clock),
        producers=Producers(database),
        retention=Retention(database, clock),
        brokers=Brokers(database),
        overview=Overview(database),
    )


async def _upgrade(database: Database) -> None:
    # Here and not above: Alembic and SQLAlchemy would be a third of every start.
    from lakestream_spark.metadata.migrate import migrate

    await migrate(database)


async def connect(url: str) -> Database:
    """The database at a URL, its schema as it is."""
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "sqlite" and (rest == "" or rest.startswith("/")):
        return SqliteDatabase(Path(rest[1:]) if rest[1:] else None)
    if scheme in ("postgresql", "postgres"):
        return await _connect_postgres(url)
    raise Misconfigured("the metadata URL begins with sqlite:// or postgresql://", url=scheme)


async def _connect_postgres(url: str) -> Database:
    try:
        # Here and not above: the driver is in the extra `postgres`, SQLite needs none.
        from lakestream_spark.metadata.postgres import PostgresDatabase
    except ModuleNotFoundError as error:
        raise Misconfigured(
            "PostgreSQL needs its driver: pip install 'lakestream-spark[postgres]'", error=error
        ) from error
    return await PostgresDatabase.open(url)
