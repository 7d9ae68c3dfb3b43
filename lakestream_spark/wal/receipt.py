"""What a commit answered: the offsets of a segment's batches, and which batches it refused.

A receipt is stored twice in the same encoding: in the writer's row (so that a commit whose outcome
is unknown can be repeated and gets the first answer) and inside the writer's next WAL segment (so
that the bucket alone tells which offsets its batches have).

    receipt    n u64 | extents u32 | extent*
    extent     base offset i64 | exceptions u32 | exception*
    exception  batch u32 | verdict u8 | offset i64

The accepted batches of an extent are consecutive from its base offset; only the others are listed.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from lakestream_spark.core.errors import Corrupt

_RECEIPT: Final = struct.Struct(">QI")
_EXTENT: Final = struct.Struct(">qI")
_EXCEPTION: Final = struct.Struct(">IBq")


class Verdict(IntEnum):
    """What the sequencer decided about one batch; the numbers are stored."""

    ACCEPTED = 0
    DUPLICATE = 1
    OUT_OF_ORDER = 2
    STALE_EPOCH = 3
    UNKNOWN_TOPIC = 4


class BatchAnswer(NamedTuple):
    """The verdict on one batch and its base offset (of the first sending, for a duplicate)."""

    verdict: Verdict
    base_offset: int


class BatchException(NamedTuple):
    """A batch of an extent, by its position there, that was not simply accepted."""

    batch: int
    verdict: Verdict
    offset: int


class ExtentReceipt(NamedTuple):
    """The answer for one partition's run of batches."""

    base_offset: int
    exceptions: tuple[BatchException, ...] = ()

    def answers(self, offsets_per_batch: Sequence[int]) -> list[BatchAnswer]:
        """One answer per batch, given how many offsets each batch takes."""
        exceptions = {e.batch: BatchAnswer(e.verdict, e.offset) for e in self.exceptions}
        answers: list[BatchAnswer] = []
        offset = self.base_offset
        for position, offsets in enumerate(offsets_per_batch):
            exception = exceptions.get(position)
            if exception is not None:
                answers.append(exception)
                continue
            answers.append(BatchAnswer(Verdict.ACCEPTED, offset))
            offset += offsets
        return answers


class SegmentReceipt(NamedTuple):
    """The answer for segment `n` of a writer, one entry per extent in the segment's order."""

    n: int
    extents: tuple[ExtentReceipt, ...]


def encode_receipt(receipt: SegmentReceipt) -> bytes:
    parts = [_RECEIPT.pack(receipt.n, len(receipt.extents))]
    for extent in receipt.extents:
        parts.append(_EXTENT.pack(extent.base_offset, len(extent.exceptions)))
        parts.extend(_EXCEPTION.pack(*exception) for exception in extent.exceptions)
    return b"".join(parts)


def decode_receipt(data: bytes | memoryview, position: int = 0) -> tuple[SegmentReceipt, int]:
    """The receipt at `position` and the position after it."""
    try:
        return _decode(memoryview(data), position)
    except (struct.error, ValueError) as error:
        raise Corrupt("a stored receipt cannot be read", position=position, error=error) from error


def _decode(view: memoryview, position: int) -> tuple[SegmentReceipt, int]:
    n, extent_count = _RECEIPT.unpack_from(view, position)
    position += _RECEIPT.size
    extents: list[ExtentReceipt] = []
    for _ in range(extent_count):
        base_offset, exception_count = _EXTENT.unpack_from(view, position)
        position += _EXTENT.size
        exceptions: list[BatchException] = []
        for _ in range(exception_count):
            batch, verdict, offset = _EXCEPTION.unpack_from(view, position)
            exceptions.append(BatchException(batch, Verdict(verdict), offset))
            position += _EXCEPTION.size
        extents.append(ExtentReceipt(base_offset, tuple(exceptions)))
    return SegmentReceipt(n, tuple(extents)), position
