"""What was compared and found equal, for people and as JSON."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import xor
from typing import Any

from lakestream_spark.verify.content import in_hex
from lakestream_spark.verify.holes import Hole, holes_of
from lakestream_spark.verify.mirror import Mirror
from lakestream_spark.verify.pinned import Pinned


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPart:
    """One partition: [first, table_end) is in the table, [table_end, high_watermark) in the WAL."""

    partition: int
    first: int
    next: int
    table_end: int
    high_watermark: int
    rows: int
    checksum: str
    unknown: int
    """Offsets that were committed before checksums were kept."""
    holes: tuple[Hole, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """How much of it was read."""

    mode: str
    files: int = 0
    table_bytes: int = 0
    cells: int = 0
    cells_read: int = 0
    extents: int = 0
    extents_read: int = 0
    wal_bytes: int = 0
    offsets_streamed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A topic that is what it should be."""

    topic: str
    topic_id: str
    table: str | None
    snapshot_id: int | None
    delta: Mirror | None
    at_ms: int
    seconds: float
    looked: Looked
    partitions: tuple[PartitionPart, ...]

    def to_json(self) -> dict[str, Any]:
        body = asdict(self)
        body["delta"] = None if self.delta is None else self.delta._asdict()
        for own, part in zip(body["partitions"], self.partitions, strict=True):
            own["holes"] = [hole._asdict() for hole in part.holes]
        return {"verified": True, **body}

    def lines(self) -> Iterator[str]:
        at = datetime.fromtimestamp(self.at_ms / 1000, UTC)
        looked = self.looked
        yield f"{self.topic} is whole: {at:%Y-%m-%d %H:%M:%S} UTC, {self.seconds:.1f} s"
        if self.table is not None:
            delta = "" if self.delta is None else f", Delta version {self.delta.version}"
            late = f" (behind: {self.delta.late})" if self.delta and self.delta.late else ""
            yield f"  table {self.table}, snapshot {self.snapshot_id}{delta}{late}"
        yield (
            f"  {looked.mode}: {looked.files} files with {looked.table_bytes} bytes, of "
            f"{looked.cells} cells {looked.cells_read} read; {looked.extents} WAL extents with "
            f"{looked.wal_bytes} bytes, {looked.extents_read} read; "
            f"{looked.offsets_streamed} offsets as a consumer gets them"
        )
        for part in self.partitions:
            yield (
                f"  partition {part.partition}: [{part.first}, {part.next}) has {part.rows} rows, "
                f"checksum {part.checksum}; WAL [{part.table_end}, {part.high_watermark})"
            )
            if part.unknown:
                yield f"    {part.unknown} offsets were committed before checksums were kept"
            for hole in part.holes:
                first, after = hole.ranges[0]
                more = f" and {len(hole.ranges) - 1} ranges more" if len(hole.ranges) > 1 else ""
                yield f"    {hole.offsets} offsets {hole.why}: [{first}, {after}){more}"


def certify(
    pinned: Pinned, looked: Looked, delta: Mirror | None, at_ms: int, seconds: float
) -> Certificate:
    """For a state in which nothing differs."""
    table = None if pinned.table is None else ".".join(pinned.table.name())
    return Certificate(
        topic=pinned.topic.name,
        topic_id=str(pinned.topic.id),
        table=table,
        snapshot_id=None if pinned.snapshot is None else pinned.snapshot.snapshot_id,
        delta=delta,
        at_ms=at_ms,
        seconds=round(seconds, 3),
        looked=looked,
        partitions=tuple(_part(pinned, partition) for partition in pinned.places()),
    )


def _part(pinned: Pinned, partition: int) -> PartitionPart:
    place, ends = pinned.places()[partition], pinned.ends[partition]
    cells = pinned.cells(partition)
    known = sum(cell.next - cell.first for cell in cells)
    return PartitionPart(
        partition=partition,
        first=place.first,
        next=place.next,
        table_end=ends.table_end,
        high_watermark=ends.high_watermark,
        rows=sum(cell.rows for cell in cells),
        checksum=in_hex(reduce(xor, (cell.checksum for cell in cells), 0)),
        unknown=place.next - place.first - known,
        holes=tuple(holes_of(pinned, partition)),
    )
