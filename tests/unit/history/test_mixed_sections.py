"""Files that overlap and are in no order: what reading them through costs."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from lakestream_spark.history import sections
from lakestream_spark.history.groups import Group, live_rows
from lakestream_spark.history.parquet import GroupCursor
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.history import end_of, local_history, records_in
from tests.support.rewriting import rewrite
from tests.support.stream_tables import StreamTable
from tests.support.tables import TableFiles

COUNT = 90
PLENTY, FOR_PLACES, TINY = 64 << 20, 3200, 64
"""Bytes of memory: for everything, for knowing where rows lie, and not even for that."""


@pytest.fixture(autouse=True)
def small_windows() -> Iterator[None]:
    with patch.multiple(sections, BLOCK_BYTES=100, _WINDOW_BYTES=300, _MIN_BLOCK_ROWS=2):
        yield


@pytest.fixture
def stream(files: TableFiles, tables: StreamCatalog) -> StreamTable:
    made = StreamTable(tables=tables, files=files)
    made.append(COUNT)
    return made


def offsets_read(folder: Path, topic: Topic, memory_bytes: int) -> list[int]:
    """From the first to the last, as a consumer reads."""
    found: list[int] = []
    at = 0
    with local_history(folder, memory_bytes) as history:
        while at < COUNT:
            data = history.read(topic, at, max_bytes=1)
            found += [record.offset for record in records_in(data) if record.offset >= at]
            at = end_of(data)
    return found


def shuffled(stream: StreamTable) -> None:
    """Three files, each with offsets of everywhere."""
    table = stream.load()
    rows = table.scan().to_arrow().take(np.random.default_rng(7).permutation(COUNT))
    parts = [rows.slice(first, COUNT // 3) for first in range(0, COUNT, COUNT // 3)]
    rewrite(table, parts, row_group_rows=COUNT)


@pytest.mark.parametrize("memory_bytes", [PLENTY, FOR_PLACES, TINY])
def test_offsets_are_looked_at_once_if_there_is_memory_and_all_are_read_in_any_case(
    tmp_path: Path, topic: Topic, stream: StreamTable, memory_bytes: int
) -> None:
    shuffled(stream)
    looked_at: Counter[str] = Counter()

    def counted(io: Any, group: Group, *others: Any) -> Any:
        looked_at[group.footer.path] += 1
        return live_rows(io, group, *others)

    with (
        patch.object(sections, "live_rows", counted),
        patch.object(sections, "_MAX_AT_ONCE", 1),
        patch("lakestream_spark.history.reader._AHEAD_BLOCKS", 0),
    ):
        assert offsets_read(tmp_path, topic, memory_bytes) == list(range(COUNT))
    assert len(looked_at) == 3
    assert (max(looked_at.values()) == 1) is (memory_bytes > TINY)


def test_windows_are_decoded_together_as_far_as_there_is_room(
    tmp_path: Path, topic: Topic, stream: StreamTable
) -> None:
    shuffled(stream)
    decoded: Counter[int] = Counter()

    class Counting(GroupCursor):
        def __init__(self, *args: Any) -> None:
            decoded[memory_bytes] += 1
            super().__init__(*args)

    for memory_bytes in (PLENTY, TINY):
        with patch.object(sections, "GroupCursor", Counting):
            assert offsets_read(tmp_path, topic, memory_bytes) == list(range(COUNT))
    assert decoded[PLENTY] == 3
    assert decoded[TINY] > 3 * 3


def test_a_row_group_is_decoded_for_windows_that_have_rows_of_it_only(
    tmp_path: Path, topic: Topic, stream: StreamTable
) -> None:
    """One file reaches over all the others with its first and its last row."""
    table = stream.load()
    rows = table.scan().to_arrow().sort_by("__offset")
    ends = rows.take([0, COUNT - 1])
    rewrite(
        table,
        [ends, rows.slice(1, COUNT // 2), rows.slice(COUNT // 2 + 1, COUNT // 2 - 2)],
        row_group_rows=COUNT,
    )
    opened: Counter[int] = Counter()

    class Counting(GroupCursor):
        def __init__(self, io: Any, footer: Any, *others: Any) -> None:
            opened[footer.metadata.num_rows] += 1
            super().__init__(io, footer, *others)

    with patch.object(sections, "GroupCursor", Counting):
        assert offsets_read(tmp_path, topic, TINY) == list(range(COUNT))
    assert opened[2] == 2
    assert len(opened) == 3
