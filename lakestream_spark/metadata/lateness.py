"""When a table is behind its stream by more than its topic asked for, and when nothing mends that.

What always holds: both are judged by numbers alone, so that everybody who shows a topic says the
same of it; what is stalled is late.
"""

from typing import Final

_SLACK_MS: Final = 5_000
_A_JOB_STARTS_MS: Final = 30_000
_CATCHES_UP_MS: Final = 300_000


def is_late(lag_ms: int, target_ms: int) -> bool:
    """Beyond what was asked for: twice that lag, and some seconds."""
    return lag_ms > 2 * target_ms + _SLACK_MS


def is_stalled(lag_ms: int, target_ms: int, tended_ms: int | None) -> bool:
    """Late, and not to be waited for any longer.

    A live job has had the topic for `tended_ms`, and minutes to catch up with what it found; None
    is no live job, and half a minute for one to start.
    """
    if not is_late(lag_ms, target_ms):
        return False
    if tended_ms is None:
        return lag_ms > target_ms + _A_JOB_STARTS_MS
    return min(lag_ms, tended_ms) > 2 * target_ms + _CATCHES_UP_MS
