"""What stays in memory of the WAL when there is not room for all."""

from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.core.ids import BrokerId, SegmentId
from lakestream_spark.wal.cache import WalCache


def segment(number: int) -> SegmentId:
    return SegmentId(BrokerId(1), 1, number)


def test_a_range_is_found_in_its_segment_or_as_it_was_read() -> None:
    cache = WalCache(100)
    cache.put_segment(segment(1), b"0123456789")
    cache.put_range(segment(2), 4, memoryview(b"abc"))
    assert cache.get(segment(1), 3, 2) == memoryview(b"34")
    assert cache.get(segment(2), 4, 3) == memoryview(b"abc")
    assert cache.get(segment(2), 4, 2) is None
    assert (cache.hits, cache.misses, cache.held_bytes) == (2, 1, 13)


def test_the_least_recently_used_goes_first() -> None:
    cache = WalCache(30)
    for number in (1, 2, 3):
        cache.put_segment(segment(number), bytes(10))
    assert cache.get(segment(1), 0, 1) is not None
    cache.put_segment(segment(4), bytes(10))
    kept = [n for n in (1, 2, 3, 4) if cache.get(segment(n), 0, 1) is not None]
    assert kept == [1, 3, 4]


def test_who_reads_through_an_old_backlog_leaves_the_newest_segments_where_they_are() -> None:
    cache = WalCache(100)
    for number in range(1, 11):
        cache.put_segment(segment(number), bytes(10))
    for number in range(1000):
        cache.put_range(segment(100), 10 * number, memoryview(bytes(10)))
    kept = [n for n in range(1, 11) if cache.get(segment(n), 0, 1) is not None]
    assert kept == [6, 7, 8, 9, 10]
    assert cache.get(segment(100), 9990, 10) is not None


def test_where_nothing_is_written_ranges_have_all_the_room() -> None:
    cache = WalCache(100)
    for number in range(20):
        cache.put_range(segment(1), 10 * number, memoryview(bytes(10)))
    assert cache.held_bytes == 100


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 60)), max_size=40),
    st.integers(0, 100),
)
def test_the_bytes_kept_never_exceed_the_bound(
    puts: list[tuple[bool, int, int]], limit: int
) -> None:
    cache = WalCache(limit)
    for whole, number, size in puts:
        if whole:
            cache.put_segment(segment(number), bytes(size))
        else:
            cache.put_range(segment(number), 0, memoryview(bytes(size)))
        assert 0 <= cache.held_bytes <= limit
