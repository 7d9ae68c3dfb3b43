from itertools import pairwise
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.core.ids import TopicId
from lakestream_spark.spark.reading.pieces import Piece, Weight, cut, tasks_of

WHOLE = Piece(TopicId(UUID(int=1)), "orders", 0, 100, 200, 0)


def ranges(pieces: list[Piece]) -> list[tuple[int, int, int]]:
    return [(piece.first, piece.next, piece.bytes) for piece in pieces]


def test_what_is_small_stays_whole():
    assert ranges(cut(WHOLE, [Weight(0, 100, 50), Weight(100, 200, 10)], 20)) == [(100, 200, 10)]


def test_a_large_file_is_cut_by_its_share_of_offsets():
    found = cut(WHOLE, [Weight(100, 200, 100)], 40)
    assert ranges(found) == [(100, 140, 40), (140, 180, 40), (180, 200, 20)]


def test_a_row_group_is_not_cut():
    found = cut(WHOLE, [Weight(100, 200, 100, 2)], 10)
    assert ranges(found) == [(100, 150, 50), (150, 200, 50)]


def test_small_files_are_read_together():
    files = [Weight(100 + 10 * n, 110 + 10 * n, 10) for n in range(10)]
    assert ranges(cut(WHOLE, files, 50)) == [(100, 150, 50), (150, 200, 50)]


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 200), st.integers(0, 500)), max_size=8),
    st.integers(1, 100),
)
def test_pieces_tile_the_range_whatever_the_files_are(files, most):
    found = cut(WHOLE, [Weight(first, first + count, size) for first, count, size in files], most)
    assert [found[0].first, found[-1].next] == [100, 200]
    assert all(one.next == other.first for one, other in pairwise(found))
    assert all(piece.first < piece.next for piece in found)


def test_small_pieces_share_a_task():
    pieces = [WHOLE._replace(partition=n, bytes=30) for n in range(5)]
    assert [len(task) for task in tasks_of(pieces, 70)] == [2, 2, 1]
    many = [WHOLE._replace(partition=n) for n in range(130)]
    assert [len(task) for task in tasks_of(many, 70)] == [64, 64, 2]
