"""Which files are merged."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.table.delta_files import MirroredFile
from lakestream_spark.table.upkeep.policy import MergePolicy
from lakestream_spark.table.upkeep.small_files import Window, condition, windows

POLICY = MergePolicy(target_bytes=100, min_files=4, max_bytes=1000)
ENDS = dict.fromkeys(range(10), 10**6)


def file(partition: int, first: int, following: int, size: int) -> MirroredFile:
    return MirroredFile(
        path=f"_data/{partition}/{first}-{following}-{size}",
        partition=partition,
        size=size,
        rows=following - first,
        offsets=(first, following - 1),
        micros=None,
        nulls={},
    )


def row_of(*sizes: int, partition: int = 0) -> list[MirroredFile]:
    """Neighbours of ten offsets each."""
    return [file(partition, i * 10, i * 10 + 10, size) for i, size in enumerate(sizes)]


def span(own: MirroredFile) -> tuple[int, int]:
    assert own.offsets is not None
    return own.offsets[0], own.offsets[1] + 1


def chosen(files: Iterable[MirroredFile], *, is_seldom: bool = False) -> list[tuple[int, int, int]]:
    found = windows(files, ENDS, POLICY, is_seldom=is_seldom)
    return [(window.partition, window.first, window.next) for window in found]


def test_enough_small_neighbours_are_merged():
    assert chosen(row_of(1, 1, 1, 1)) == [(0, 0, 40)]


def test_few_small_files_wait_for_the_hour():
    assert chosen(row_of(1, 1, 1)) == []
    assert chosen(row_of(1, 1, 1), is_seldom=True) == [(0, 0, 30)]


def test_few_files_that_fill_a_good_one_are_merged_at_once():
    assert chosen(row_of(60, 60)) == [(0, 0, 20)]


def test_one_file_is_never_merged():
    assert chosen(row_of(1), is_seldom=True) == []


def test_good_files_are_left_alone_and_part_the_others():
    assert chosen(row_of(1, 1, 90, 1, 1, 1, 1)) == [(0, 30, 70)]


def test_big_neighbour_waits_until_the_small_ones_are_worth_it():
    assert chosen(row_of(50, 1, 1, 1, 1)) == [(0, 10, 50)]
    assert chosen(row_of(50, 20, 20, 20, 20)) == [(0, 0, 50)]


def test_each_partition_has_its_own_window_and_most_files_come_first():
    files = [*row_of(*[1] * 4, partition=1), *row_of(*[1] * 6, partition=2)]
    assert chosen(files) == [(2, 0, 60), (1, 0, 40)]


def test_a_rewrite_reads_no_more_than_it_may():
    files = [*row_of(*[70] * 3, partition=1), *row_of(*[70] * 12, partition=2)]
    found = windows(files, ENDS, MergePolicy(target_bytes=100, max_bytes=220), is_seldom=False)
    assert [window.partition for window in found] == [1] or len(found) == 1


def test_rows_beyond_the_ends_keep_their_partition_from_being_merged():
    assert windows(row_of(1, 1, 1, 1), {0: 35}, POLICY, is_seldom=True) == []


def test_files_that_overlap_are_merged_together():
    files = [file(0, 0, 30, 90), file(0, 10, 20, 1), file(0, 30, 40, 1)]
    assert chosen(files, is_seldom=True) == [(0, 0, 40)]


def test_condition_names_whole_files():
    window = Window(partition=3, first=10, next=40, files=3, size=3)
    assert condition([window]) == "(__partition = 3 AND __offset >= 10 AND __offset < 40)"


@given(
    sizes=st.lists(st.integers(1, 150), max_size=40),
    gaps=st.lists(st.integers(-5, 5), min_size=40, max_size=40),
    is_seldom=st.booleans(),
)
def test_a_window_parts_no_file_and_touches_no_other(sizes, gaps, is_seldom):
    files, start = [], 0
    for size, gap in zip(sizes, gaps, strict=False):
        start = max(0, start + gap)
        files.append(file(0, start, start + 10, size))
        start += 10
    for window in windows(files, ENDS, POLICY, is_seldom=is_seldom):
        inside = [f for f in files if span(f)[0] < window.next and span(f)[1] > window.first]
        assert all(window.first <= span(f)[0] < span(f)[1] <= window.next for f in inside)
        assert len(inside) == window.files >= 2
        assert sum(f.size for f in inside) == window.size


def test_merging_hour_by_hour_rewrites_a_row_a_few_times_only():
    files: list[MirroredFile] = []
    written = 0
    for hour in range(200):
        files.append(file(0, hour * 10, hour * 10 + 10, 1))
        for window in windows(files, ENDS, POLICY, is_seldom=True):
            written += window.size
            rest = [f for f in files if not window.first <= span(f)[0] < window.next]
            files = [*rest, file(0, window.first, window.next, window.size)]
    assert written <= 200 * 8
    assert len(files) <= 12
