"""Rows -> record batches, as a consumer expects them.

What always holds: batches cover the span's offsets to its end, so that nobody waits at a hole; a
batch covers the hole after its last record; one without records is made only when nothing precedes.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from lakestream_spark.history.locate import Span
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import Record, encode_batch
from lakestream_spark.table.rows import Row

_BATCH_BYTES: Final = 256 * 1024


def encode_rows(rows: Iterable[Row], span: Span, codec: Codec) -> Iterator[bytes]:
    """The rows of the span, which are in offset order, as batches."""
    held: list[Row] = []
    size = 0
    for row in rows:
        if held and (size >= _BATCH_BYTES or not _together(held[-1], row)):
            yield _encode(held, row.record.offset - 1, codec)
            held, size = [], 0
        held.append(row)
        size += _weight(row.record)
    if held:
        yield _encode(held, span.next - 1, codec)
    else:
        yield encode_batch([], base_offset=span.first, last_offset=span.next - 1)


def _together(one: Row, other: Row) -> bool:
    """Append time is one time for a whole batch; create time is the record's own."""
    if one.append_time != other.append_time:
        return False
    return not one.append_time or one.record.timestamp == other.record.timestamp


def _encode(rows: list[Row], last_offset: int, codec: Codec) -> bytes:
    return encode_batch(
        [row.record for row in rows],
        last_offset=last_offset,
        codec=codec,
        append_time=rows[0].append_time,
    )


def _weight(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"") + 16
