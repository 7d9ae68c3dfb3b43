"""What must be true of the metadata tables themselves, whatever happened before."""

from itertools import pairwise

from lakestream_spark.metadata.database import Database, Fetch, Rows, Transaction
from lakestream_spark.wal.format import HEADER_BYTES


def _load() -> Transaction[tuple[Rows, Rows, Rows]]:
    partitions = yield Fetch(
        "SELECT id, log_start, table_end, next_offset FROM partitions ORDER BY id"
    )
    extents = yield Fetch(
        "SELECT partition_id, base_offset, next_offset, segment_id, position, length FROM extents "
        "ORDER BY partition_id, base_offset"
    )
    segments = yield Fetch(
        "SELECT id, size, live_extents, live_bytes, unreferenced_ms FROM segments"
    )
    return partitions, extents, segments


async def audit(database: Database) -> None:
    """Raise `AssertionError` with the invariant's name at the first row that breaks it."""
    partitions, extents, segments = await database.read(_load())
    known = {row[0] for row in partitions}
    assert {row[0] for row in extents} <= known, "NoOrphanReference: extents of no partition"
    for row_id, log_start, table_end, high_watermark in partitions:
        assert 0 <= log_start <= high_watermark, f"OffsetDensity: log start of {row_id}"
        assert 0 <= table_end <= high_watermark, f"TablePrefix: table end of {row_id}"
        _audit_extents([row for row in extents if row[0] == row_id], table_end, high_watermark)
    for row_id, size, live_extents, live_bytes, unreferenced_ms in segments:
        own = [row for row in extents if row[3] == row_id]
        counted = (len(own), sum(row[5] for row in own))
        assert counted == (live_extents, live_bytes), f"NoGarbage: live counters of {row_id}"
        assert (unreferenced_ms is None) == bool(own), f"NoGarbage: unreferenced {row_id}"
        end = HEADER_BYTES + size
        assert all(row[4] + row[5] <= end for row in own), f"an extent beyond segment {row_id}"
    missing = {row[3] for row in extents} - {row[0] for row in segments}
    assert not missing, f"NoOrphanReference: no segments {missing}"


def _audit_extents(extents: Rows, table_end: int, high_watermark: int) -> None:
    if not extents:
        assert table_end == high_watermark, "OffsetDensity: offsets without an extent"
        return
    assert extents[0][1] <= table_end < extents[0][2], f"OffsetDensity: first extent {extents[0]}"
    for before, after in pairwise(extents):
        assert before[2] == after[1], f"OffsetDensity: {before} then {after}"
    assert extents[-1][2] == high_watermark, f"OffsetDensity: last extent {extents[-1]}"
