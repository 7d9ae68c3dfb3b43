"""The comparison, from the topic's name to its certificate.

What always holds: the first difference is raised as `Corrupt` with where it is; one that a commit
in between may have made is looked at again in the newer state.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from lakestream_spark.core.errors import Corrupt, UnknownTopic
from lakestream_spark.history.reader import TableReader
from lakestream_spark.table.expected import ExpectedCell
from lakestream_spark.verify import index
from lakestream_spark.verify.certificate import Certificate, Looked, certify
from lakestream_spark.verify.content import bytes_of, check_cell
from lakestream_spark.verify.files import LiveFile, check_counts, live_files
from lakestream_spark.verify.mirror import check_mirror
from lakestream_spark.verify.pinned import Asked, Pinned, Site, pin
from lakestream_spark.verify.stream import check_stream

SAMPLE: Final = 4
"""So many cells, and as many extents, are read unless the caller says otherwise."""
_TRIES: Final = 5
_STREAM_MEMORY: Final = 64 * 1024 * 1024
_STREAMED_CELLS: Final = 2
_SAMPLE_BYTES: Final = 1024 * 1024 * 1024
"""Of files; where records are large a sample is fewer cells."""

CheckAll: TypeAlias = Callable[[Pinned], Sequence[ExpectedCell]]
"""Compares every cell of the pinned state; those that differ are looked at again, row by row."""
T = TypeVar("T")


async def verify(
    site: Site, name: str, asked: Asked, *, sample: int = SAMPLE, check_all: CheckAll | None = None
) -> Certificate:
    """Raises `Corrupt` at the first difference; with `check_all` every row is compared."""
    topic = await site.metadata.topics.get(name)
    if asked.partition is not None and asked.partition >= topic.partitions:
        raise UnknownTopic(
            "the topic has no such partition", partition=asked.partition, count=topic.partitions
        )
    for left in reversed(range(_TRIES)):
        pinned = await pin(site, topic, asked)
        try:
            return await _compare(site, pinned, sample, check_all)
        except Corrupt:
            if not left or not await _moved_since(site, pinned):
                raise
    raise AssertionError("unreachable")


async def _moved_since(site: Site, pinned: Pinned) -> bool:
    try:
        return (await pin(site, pinned.topic, pinned.asked)).state != pinned.state
    except Corrupt:
        return False


async def _compare(
    site: Site, pinned: Pinned, sample: int, check_all: CheckAll | None
) -> Certificate:
    began = site.clock.monotonic()
    extents = await index.extents_of(site, pinned)
    wal_bytes = await index.check_segments(site, extents)
    chosen = extents if check_all else _some(site, extents, sample)
    await index.check_bytes(site, chosen)
    files = await asyncio.to_thread(live_files, pinned)
    check_counts(pinned, files)
    delta = await check_mirror(pinned, site.clock)
    sizes = {file.path: file.size for file in files}
    looked = Looked(
        mode="full" if check_all else "sample",
        files=len(sizes),
        table_bytes=sum(sizes.values()),
        cells=len(pinned.cells()),
        extents=len(extents),
        extents_read=len(chosen),
        wal_bytes=wal_bytes,
    )
    looked = await asyncio.to_thread(_read, site, pinned, files, looked, sample, check_all)
    seconds = site.clock.monotonic() - began
    return certify(pinned, looked, delta, site.clock.wall_ms(), seconds)


def _read(
    site: Site,
    pinned: Pinned,
    files: Sequence[LiveFile],
    looked: Looked,
    sample: int,
    check_all: CheckAll | None,
) -> Looked:
    """Rows of cells, and a few of them as the stream."""
    if pinned.table is None:
        return looked
    cells = pinned.cells()
    chosen = _some(site, cells, sample)
    for cell in check_all(pinned) if check_all is not None else ():
        check_cell(pinned.table.io, files, cell)
        raise Corrupt(
            "Spark reads other rows than the table's files have",
            partition=cell.partition,
            offsets=f"[{cell.first}, {cell.next})",
        )
    streamed, read, budget = 0, 0, _SAMPLE_BYTES
    with closing(TableReader(site.spec, _STREAM_MEMORY)) as reader:
        for number, cell in enumerate(chosen):
            budget -= bytes_of(files, cell)
            if number and budget < 0:
                break
            read += 1
            rows = check_cell(pinned.table.io, files, cell)
            if rows and number < _STREAMED_CELLS:
                streamed += check_stream(reader, pinned.topic, cell, rows)
    return replace(looked, cells_read=len(cells) if check_all else read, offsets_streamed=streamed)


def _some(site: Site, every: Sequence[T], sample: int) -> list[T]:
    """The newest, and others by chance."""
    if len(every) <= sample:
        return list(every)
    others = site.random.sample(range(len(every) - 1), sample - 1)
    return [every[at] for at in [len(every) - 1, *sorted(others)]]
