"""Blocks -> the bytes of one answer: whole batches, without a hole that could hold a consumer up.

What always holds: the answer covers the offsets up to where the next one begins; a batch covers the
hole after its last record; one without records is made only when nothing precedes the hole.
"""

from typing import Final

from crc32c import crc32c

from lakestream_spark.history.blocks import Batch, Block
from lakestream_spark.kafka.batch import CRC_START, HEADER, HEADER_BYTES, BatchHeader
from lakestream_spark.kafka.records import encode_batch

_LAST_DELTA: Final = 2**31 - 1


class AnswerBuilder:
    """Takes blocks in the order of their offsets until it is full; nothing beyond `end`."""

    def __init__(self, offset: int, end: int, max_bytes: int) -> None:
        self._offset = offset
        self._end = end
        self._max_bytes = max_bytes
        self._batches: list[Batch] = []
        self._size = 0
        self.next = offset
        """Where the next answer begins."""
        self.full = False

    def add(self, block: Block) -> None:
        """The batches of a block from `next` on, as many as fit; the first one fits always."""
        for batch in block.batches:
            if batch.next <= self.next:
                continue
            if self._batches and self._size + len(batch.data) > self._max_bytes:
                self.full = True
                self.skip_to(batch.base)
                return
            self._batches.append(batch)
            self._size += len(batch.data)
            self.next = batch.next
        self.skip_to(block.next)
        self.full = self._size >= self._max_bytes

    def skip_to(self, offset: int) -> None:
        """There is no row before this offset."""
        # Bounds of files may lie beyond the end: those of several partitions, or unknown ones.
        self.next = max(self.next, min(offset, self._end))

    @property
    def records(self) -> int:
        return sum(batch.records for batch in self._batches)

    def finish(self) -> bytes:
        """All batches, one after the other."""
        if not self._batches:
            last = min(self.next - 1, self._offset + _LAST_DELTA)
            return encode_batch([], base_offset=self._offset, last_offset=last)
        borders = [*(batch.base for batch in self._batches[1:]), self.next]
        return b"".join(
            _reaching(batch, border) for batch, border in zip(self._batches, borders, strict=True)
        )


def _reaching(batch: Batch, border: int) -> bytes:
    """The batch with the hole up to `border` in it."""
    if border <= batch.next:
        return batch.data
    header = BatchHeader(*HEADER.unpack_from(batch.data))
    reach = header._replace(last_offset_delta=min(border - 1 - batch.base, _LAST_DELTA))
    crc = crc32c(memoryview(batch.data)[HEADER_BYTES:], crc32c(HEADER.pack(*reach)[CRC_START:]))
    return HEADER.pack(*reach._replace(crc=crc)) + batch.data[HEADER_BYTES:]


def batches_in(encoded: list[bytes]) -> tuple[Batch, ...]:
    """Encoded batches with the offsets that they reach from and to."""
    headers = [BatchHeader(*HEADER.unpack_from(data)) for data in encoded]
    return tuple(
        Batch(header.base_offset, header.base_offset + header.offsets, data, header.record_count)
        for header, data in zip(headers, encoded, strict=True)
    )
