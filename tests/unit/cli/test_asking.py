"""How commands take places and times."""

import time
from collections.abc import Iterator

import click
import pytest

from lakestream_spark.cli.asking import partition_offset, time_ms


@pytest.fixture
def _far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose own time is not UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_far_away")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20.123", 1_700_000_000_123),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("2023-11-15T07:13:20.123+09:00", 1_700_000_000_123),
        ("2023-11-14", 1_699_920_000_000),
        ("253402300799999", 253_402_300_799_999),
        ("9999-12-31T23:59:59.999999-14:00", 253_402_300_799_999),
        ("1969-12-31T23:59:59.999", 0),
        ("0001-01-01", 0),
    ],
)
def test_a_time_is_utc_unless_it_names_a_zone(text: str, expected: int) -> None:
    assert time_ms(text, "--offset") == expected


def test_what_is_no_time_and_no_place_gets_a_sentence() -> None:
    with pytest.raises(click.BadParameter, match="'noon' is neither milliseconds nor a time"):
        time_ms("noon", "--offset")
    with pytest.raises(click.BadParameter, match="'3' is not PARTITION:OFFSET"):
        partition_offset("3", "--offset")
    assert partition_offset("3:7", "--offset") == (3, 7)


@pytest.mark.parametrize("text", ["253402300800000", "9" * 23, "9" * 5000])
def test_what_is_beyond_all_times_and_offsets_gets_a_sentence(text: str) -> None:
    with pytest.raises(click.BadParameter, match="ms is after the year 9999"):
        time_ms(text, "--offset")
    with pytest.raises(click.BadParameter, match="is not PARTITION:OFFSET"):
        partition_offset(f"{text}:{text}", "--offset")
