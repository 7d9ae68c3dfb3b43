import pytest

from lakestream_spark.metadata.lateness import is_late, is_stalled

SECOND, MINUTE = 1_000, 60_000


@pytest.mark.parametrize(
    ("lag_ms", "target_ms", "expected"),
    [
        (0, SECOND, False),
        (7 * SECOND, SECOND, False),
        (7 * SECOND + 1, SECOND, True),
        (2 * MINUTE, MINUTE, False),
        (3 * MINUTE, MINUTE, True),
    ],
)
def test_late_is_beyond_twice_what_was_asked_for_and_some_seconds(
    lag_ms: int, target_ms: int, expected: bool
) -> None:
    assert is_late(lag_ms, target_ms) is expected


@pytest.mark.parametrize(
    ("lag_ms", "target_ms", "tended_ms", "expected"),
    [
        # No job: one may be about to start.
        (24 * SECOND, SECOND, None, False),
        (32 * SECOND, SECOND, None, True),
        # A lag that was asked for is no stall, whoever runs.
        (2 * MINUTE, MINUTE, None, False),
        (3 * MINUTE, MINUTE, None, True),
        # A job that runs has minutes to catch up, counted from its start.
        (32 * SECOND, SECOND, 40 * SECOND, False),
        (60 * MINUTE, SECOND, MINUTE, False),
        (60 * MINUTE, SECOND, 6 * MINUTE, True),
        (4 * MINUTE, SECOND, 60 * MINUTE, False),
        (6 * MINUTE, MINUTE, 60 * MINUTE, False),
        (8 * MINUTE, MINUTE, 60 * MINUTE, True),
    ],
)
def test_stalled_is_late_with_nobody_or_for_minutes_with_a_job(
    lag_ms: int, target_ms: int, tended_ms: int | None, expected: bool
) -> None:
    assert is_stalled(lag_ms, target_ms, tended_ms) is expected
