import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.core.ids import BrokerId, SegmentId
from lakestream_spark.objectstore.keys import (
    WAL_PREFIX,
    parse_segment_key,
    segment_key,
    wal_epoch_prefix,
)
from lakestream_spark.objectstore.store import check_key, check_prefix

segment_ids = st.builds(
    SegmentId,
    st.integers(0, 2**31 - 1).map(BrokerId),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
)


@given(segment_ids)
def test_a_segment_key_parses_to_the_segment_it_was_made_from(segment_id: SegmentId):
    key = segment_key(segment_id)
    check_key(key)
    assert key.startswith(WAL_PREFIX)
    assert parse_segment_key(key) == segment_id


@given(segment_ids, segment_ids)
def test_keys_sort_as_their_segments_do(one: SegmentId, other: SegmentId):
    assert (segment_key(one) < segment_key(other)) == (one < other)


@given(segment_ids)
def test_an_epochs_prefix_holds_its_segments(segment_id: SegmentId):
    prefix = wal_epoch_prefix(segment_id.broker_id, segment_id.broker_epoch)
    check_prefix(prefix)
    assert segment_key(segment_id).startswith(prefix)


@given(segment_ids, st.integers(0, 60), st.characters())
def test_a_changed_key_is_foreign_or_another_segment(segment_id: SegmentId, at: int, char: str):
    key = segment_key(segment_id)
    changed = key[:at] + char + key[at + 1 :]
    parsed = parse_segment_key(changed)
    assert parsed is None or segment_key(parsed) == changed


@pytest.mark.parametrize(
    "key",
    [
        "",
        "wal/",
        "wal/1/2/3.seg",
        "wal/0000000001/0000000000000000002/0000000000000000003.seg.tmp",
        "wal/0000000001/0000000000000000002/0000000000000000003",
        "other/wal/0000000001/0000000000000000002/0000000000000000003.seg",
        "wal/9999999999/0000000000000000002/0000000000000000003.seg",
        "wal/0000000001/9999999999999999999/0000000000000000003.seg",
        "wal/0000000001/000000000000000000٢/0000000000000000003.seg",
        "wal/0000000001/0000000000000000002/0000000000000000003.seg\n",
    ],
)
def test_a_foreign_key_is_not_taken_for_a_segment(key: str):
    assert parse_segment_key(key) is None


@pytest.mark.parametrize(
    "segment_id", [(-1, 1, 1), (1, -1, 1), (1, 1, -1), (2**31, 1, 1), (1, 1, 2**63)]
)
def test_no_key_is_made_for_an_unlawful_identity(segment_id: tuple[int, int, int]):
    broker_id, epoch, n = segment_id
    with pytest.raises(ValueError, match="WAL segment"):
        segment_key(SegmentId(BrokerId(broker_id), epoch, n))
