"""What is said of a table that nobody brings on: it is late, and no compaction runs, or the one
that runs does not keep up.

Pure. What always holds: everybody who shows a topic judges it here, by the compactions that they
know to live, so that a command and a page say the same.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from lakestream_spark.metadata.jobs import COMPACTION, Job
from lakestream_spark.metadata.lateness import is_stalled


class Stall(NamedTuple):
    """What is wrong, and what to do about it."""

    sentence: str
    remedy: str


_NONE_RUNS: Final = Stall(
    "no compaction is running for it", "start `lakestream up`, or `lakestream compact`"
)
_NOT_ENOUGH: Final = Stall(
    "the compaction that runs does not keep up",
    "look into its log, give it more cores (compact.master), or start another `lakestream compact`",
)


def stall_of(
    topic: str, lag_ms: int, target_ms: int, live: Sequence[Job], now_ms: int
) -> Stall | None:
    """Why the topic's table stands still; None if it does not, or is only late. `live` are jobs
    that live, of any kind."""
    own = [
        job
        for job in live
        if job.kind == COMPACTION and fnmatchcase(topic, job.about.get("topics", "*"))
    ]
    tended_ms = max((now_ms - job.started_ms for job in own), default=None)
    if not is_stalled(lag_ms, target_ms, tended_ms):
        return None
    why = _NOT_ENOUGH if own else _NONE_RUNS
    behind = f"its table is {lag_ms / 1000:,.0f} s behind its stream"
    asked = f"lakestream.table.lag.ms asks for {target_ms / 1000:g} s"
    return Stall(f"{behind}, {asked}, and {why.sentence}", why.remedy)
