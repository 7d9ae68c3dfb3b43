"""Which topics of `lakestream status` are stalled, by the compactions that live.

What always holds: a job counts as live only when its beat was seen to move; nobody waits for that
unless a topic is late.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lakestream_spark.cli.topic_status import TopicStatus
from lakestream_spark.core.clock import Clock
from lakestream_spark.metadata.jobs import COMPACTION, Job, Jobs
from lakestream_spark.metadata.stalls import stall_of

_POLL_S: Final = 0.1


async def with_stalls(
    found: Sequence[TopicStatus], jobs: Jobs, clock: Clock, session_s: float
) -> list[TopicStatus]:
    """The same topics; those that are stalled, and nobody knew why, have a problem."""
    if not any(each.is_late and not each.is_red for each in found):
        return list(found)
    live, now_ms = await beating(jobs, clock, session_s), clock.wall_ms()
    return [judged(each, live, now_ms) for each in found]


def judged(status: TopicStatus, live: Sequence[Job], now_ms: int) -> TopicStatus:
    """With the sentence of its stall, if it is stalled and was not red before."""
    stall = stall_of(status.topic, status.lag_ms, status.lag_target_ms, live, now_ms)
    if status.is_red or stall is None:
        return status
    return replace(status, problems=(f"{stall.sentence}: {stall.remedy}",))


async def beating(jobs: Jobs, clock: Clock, session_s: float) -> list[Job]:
    """The compactions that live; takes a beat of theirs, and a session when one of them is dead."""
    first = {job.id: job.beat for job in await _compactions(jobs)}
    began = clock.monotonic()
    while True:
        now = await _compactions(jobs)
        live = [job for job in now if job.beat != first.get(job.id)]
        if len(live) == len(now) or clock.monotonic() - began > session_s:
            return live
        await clock.sleep(_POLL_S)


async def _compactions(jobs: Jobs) -> list[Job]:
    return [job for job in await jobs.list() if job.kind == COMPACTION]
