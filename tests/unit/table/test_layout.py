from hashlib import sha256
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.core.ids import TopicId
from lakestream_spark.table.layout import TableLayout, decode_ends, encode_ends, table_name

TOPIC_ID = TopicId(UUID(int=7))


@pytest.mark.parametrize("topic", ["orders", "orders_v2", "2026_orders"])
def test_plain_topic_is_the_name_of_its_table(topic: str) -> None:
    assert table_name(topic) == topic


@pytest.mark.parametrize("topic", ["Orders", "a.b", "a-b", "a__b", "_a", "...", "a_b_"])
def test_other_topic_gets_a_name_of_its_own(topic: str) -> None:
    name = table_name(topic)
    assert name not in {table_name(other) for other in ("orders", "a_b", "A-B", "A.b")}
    assert name == name.lower()
    assert name.replace("_", "").isalnum()
    assert not name.startswith("_")


@pytest.mark.parametrize("topic", ["o" * 218, "o" * 210 + "_2026", "O" * 209])
def test_a_name_that_fits_is_left_as_it_is(topic: str) -> None:
    assert table_name(topic).startswith(topic.lower())


@pytest.mark.parametrize("topic", ["o" * 219, "o" * 249, "O" * 210, "a." * 124 + "b", "-" * 249])
def test_a_long_name_is_cut_and_stays_its_own(topic: str) -> None:
    layout = TableLayout(warehouse="file:///w", topic_id=TOPIC_ID, topic_name=topic)
    _, name = layout.identifier
    assert name.removesuffix(sha256(topic.encode()).hexdigest()[:8]).endswith("_")
    assert "__" not in name
    assert len(layout.location.rpartition("/")[2]) <= 255
    assert len(layout.set_aside(str(TOPIC_ID))[1]) <= 255


def test_recreated_topic_has_another_location() -> None:
    first = TableLayout(warehouse="file:///w", topic_id=TOPIC_ID, topic_name="orders")
    second = TableLayout(warehouse="file:///w", topic_id=TopicId(UUID(int=8)), topic_name="orders")
    assert first.identifier == second.identifier
    assert first.location != second.location


def test_everything_below_the_location_starts_with_an_underscore() -> None:
    layout = TableLayout(warehouse="file:///w/", topic_id=TOPIC_ID, topic_name="orders")
    path = layout.data_file(3, 5, 9, UUID(int=1))
    assert path.startswith(f"{layout.location}/_data/3/")
    assert layout.properties()["write.metadata.path"] == f"{layout.location}/_iceberg"


@given(ends=st.lists(st.integers(0, 2**62), max_size=9))
def test_ends_come_back_from_their_text(ends: list[int]) -> None:
    by_partition = dict(enumerate(ends))
    assert decode_ends(encode_ends(by_partition)) == by_partition
