"""Pieces: ranges of offsets of about equal bytes, together in tasks. Pure.

What always holds: the pieces of a range tile it, in order; how many bytes they are is an estimate
that only decides where to cut.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from lakestream_spark.core.ids import TopicId

PIECE_BYTES: Final = 32 * 1024 * 1024
"""As stored, in Parquet or in the WAL; a task holds a small part of them at a time."""
_MOST_PIECES: Final = 64


class Piece(NamedTuple):
    """Offsets [first, next) of a partition, read by one task."""

    topic_id: TopicId
    topic: str
    partition: int
    first: int
    next: int
    bytes: int


class Weight(NamedTuple):
    """The offsets [first, next) take so many bytes, in parts that are read from their beginning:
    the row groups of a file."""

    first: int
    next: int
    bytes: int
    parts: int = 1_000_000


def cut(whole: Piece, weights: Iterable[Weight], most_bytes: int = PIECE_BYTES) -> list[Piece]:
    """The piece in consecutive parts of about `most_bytes`."""
    parts: list[Piece] = []
    first, size = whole.first, 0
    for each in sorted(weights):
        weight = _within(each, first, whole.next)
        if weight.first == weight.next:
            continue
        # Between two files, if possible: then none of them is opened twice.
        if size + weight.bytes > most_bytes and weight.first > first:
            parts.append(whole._replace(first=first, next=weight.first, bytes=size))
            first, size = weight.first, 0
        step = max(most_bytes, each.bytes // each.parts)
        while weight.bytes > step and weight.next - weight.first > 1:
            count = weight.next - weight.first
            taken = max(1, min(count - 1, count * step // weight.bytes))
            border, used = weight.first + taken, weight.bytes * taken // count
            parts.append(whole._replace(first=first, next=border, bytes=size + used))
            first, size = border, 0
            weight = Weight(border, weight.next, weight.bytes - used)
        size += weight.bytes
    parts.append(whole._replace(first=first, bytes=size))
    return parts


def tasks_of(pieces: Sequence[Piece], most_bytes: int = PIECE_BYTES) -> list[tuple[Piece, ...]]:
    """Small pieces share a task."""
    tasks: list[list[Piece]] = []
    room = 0
    for piece in pieces:
        if not tasks or piece.bytes > room or len(tasks[-1]) >= _MOST_PIECES:
            tasks.append([])
            room = most_bytes
        tasks[-1].append(piece)
        room -= piece.bytes
    return [tuple(task) for task in tasks]


def _within(weight: Weight, first: int, following: int) -> Weight:
    """The part of a weight between two offsets, with its share of the bytes."""
    begin, end = max(weight.first, first), min(weight.next, following)
    if begin >= end:
        return Weight(begin, begin, 0)
    share = weight.bytes * (end - begin) // (weight.next - weight.first)
    return Weight(begin, end, share)
