"""One state of a topic to be looked at: table and metadata store at the same ends.

What always holds: the ends of the table are those of the metadata store, or that is a difference;
what others changed below the pinned snapshot is known, from the ledger or from their snapshots.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Final

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import (
    Corrupt,
    LostFile,
    OffsetOutOfRange,
    RedTable,
    Rejected,
    Unavailable,
)
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.cells import CELL_BITS, Cell, TableChange
from lakestream_spark.metadata.tables import Quarantined
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.objectstore.store import ObjectStore
from lakestream_spark.table.append import TableState
from lakestream_spark.table.erasures import new_changes, standing_changes
from lakestream_spark.table.expected import Expected, ExpectedCell
from lakestream_spark.table.foreign import check_foreign_changes
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.outage import asking
from lakestream_spark.table.remedies import Remedies
from lakestream_spark.table.runs import Run
from lakestream_spark.table.spec import CatalogSpec
from lakestream_spark.wal.ports import PartitionEnds

_LOOKS: Final = 20
_REST_S: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where everything lies; stores are those of the WAL, by profile."""

    metadata: Metadata
    catalog: StreamCatalog
    spec: CatalogSpec
    stores: Mapping[str, ObjectStore]
    clock: Clock
    random: Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which offsets are to be compared; within a partition if one is named."""

    partition: int | None = None
    first: int = 0
    next: int | None = None

    def __post_init__(self) -> None:
        if self.next is not None and self.next <= self.first:
            raise Rejected("nothing lies between these offsets", first=self.first, next=self.next)

    def __contains__(self, partition: int) -> bool:
        return self.partition is None or self.partition == partition

    def whole_cells(self, end: int) -> Run:
        """The cells that the asked offsets touch, up to the end."""
        after = end if self.next is None else min(self.next, end)
        border = -(-after >> CELL_BITS) << CELL_BITS
        first = (self.first >> CELL_BITS) << CELL_BITS
        return Run(min(first, end), min(border, end))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """The state of a topic that is looked at."""

    topic: Topic
    asked: Asked
    ends: Mapping[int, PartitionEnds]
    table: Table | None
    snapshot: Snapshot | None
    committed: Sequence[Cell]
    changes: Sequence[TableChange]
    quarantined: Sequence[Quarantined]
    expected: Expected

    def places(self) -> dict[int, Run]:
        """What is compared of each partition's table."""
        return {
            partition: self.asked.whole_cells(ends.table_end)
            for partition, ends in self.ends.items()
            if partition in self.asked
        }

    def cells(self, partition: int | None = None) -> list[ExpectedCell]:
        """The cells that are compared, all or those of a partition."""
        return [
            cell
            for own, place in self.places().items()
            if partition in (None, own)
            for cell in self.expected.cells(own)
            if self.expected.covered[own].first <= cell.first
            and place.first < cell.next
            and cell.first < place.next
        ]

    @property
    def state(self) -> tuple[object, ...]:
        """Differs when anything was committed since."""
        location = None if self.table is None else self.table.metadata_location
        return location, tuple((p, ends.table_end) for p, ends in sorted(self.ends.items()))


async def pin(site: Site, topic: Topic, asked: Asked) -> Pinned:
    """Table and metadata store with the same ends; a commit between the two is waited for."""
    looks = 0
    while True:
        table = site.catalog.load(site.catalog.layout(topic.id, topic.name, topic.config))
        ledger = await site.metadata.cells.ledger(topic.id)
        ends = await site.metadata.tables.ends(topic.id)
        in_table = {} if table is None else TableState.of(table).ends
        differing = [p for p, own in ends.items() if own.table_end != in_table.get(p, 0)]
        moved = any(ends[p].table_end != end for p, end in ledger.table_ends.items())
        if not differing and not moved:
            break
        looks += 1
        if looks >= _LOOKS and differing:
            await _refuse_unfinished(site, topic, table)
            _refuse_ends(differing[0], ends, in_table, table)
        await site.clock.sleep(_REST_S)
    _refuse_beyond(asked, ends)
    changes = list(ledger.changes)
    if table is not None:
        with reading(table):
            _refuse_red(site, topic, table)
            changes = [*standing_changes(table, ledger), *new_changes(table, ledger).changes]
    expected = Expected(ledger.cells)
    for change in sorted(changes, key=lambda each: each.sequence_number):
        expected.apply(change)
    return Pinned(
        topic=topic,
        asked=asked,
        ends=ends,
        table=table,
        snapshot=None if table is None else table.current_snapshot(),
        committed=ledger.cells,
        changes=changes,
        quarantined=await site.metadata.tables.quarantined(topic.id),
        expected=expected,
    )


def _refuse_beyond(asked: Asked, ends: Mapping[int, PartitionEnds]) -> None:
    """Raises `OffsetOutOfRange` for what no partition has yet; of an empty log all is nothing."""
    last = max(own.high_watermark for partition, own in ends.items() if partition in asked)
    if asked.first and asked.first >= last:
        raise OffsetOutOfRange(
            "there is nothing to compare: the log ends before the first offset asked for",
            first=asked.first,
            high_watermark=last,
        )


async def _refuse_unfinished(site: Site, topic: Topic, table: Table | None) -> None:
    """Raises `Unavailable` when the table has a commit that the store is still to be told of."""
    intent = await site.metadata.tables.intent(topic.id)
    if table is not None and intent and intent.commit_id == TableState.of(table).newest:
        raise Unavailable(
            "a commit of the topic waits to be finished: start compaction, which does it",
            topic=topic.name,
            commit=intent.commit_id,
        )


def _refuse_ends(
    partition: int,
    ends: Mapping[int, PartitionEnds],
    in_table: Mapping[int, int],
    table: Table | None,
) -> None:
    end = ends[partition].table_end
    if table is None:
        raise Corrupt("the topic's table is gone", partition=partition, table_end=end)
    raise Corrupt(
        "the table and the metadata store disagree where the table ends",
        partition=partition,
        table_says=in_table.get(partition, 0),
        metadata_says=end,
    )


@contextmanager
def reading(table: Table) -> Iterator[None]:
    """What is missing in the block is lost, and what does not answer may answer later."""
    try:
        with asking(table.name()):
            yield
    except Unavailable as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise LostFile(
            f"data loss: a file of the table is not in the store: {error.__cause__}",
            snapshot_id=table.metadata.current_snapshot_id,
        ) from error


def _refuse_red(site: Site, topic: Topic, table: Table) -> None:
    layout = site.catalog.layout(topic.id, topic.name, topic.config)
    remedies = Remedies(
        catalog=site.spec.name, identifier=layout.identifier, location=layout.location
    )
    try:
        check_foreign_changes(table, remedies)
    except RedTable as red:
        raise Corrupt(red.message, **red.facts) from red
