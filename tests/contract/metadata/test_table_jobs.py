"""The backlog, flush requests, problems, jobs and quarantine."""

import asyncio
from typing import TypeVar, cast

import pytest

from lakestream_spark.core.errors import Fenced
from lakestream_spark.core.ids import BrokerId, TopicPartition
from lakestream_spark.metadata.backlog import _ask_flush, reached
from lakestream_spark.metadata.database import Rows, Transaction
from lakestream_spark.metadata.jobs import Job
from lakestream_spark.metadata.problems import Problem
from lakestream_spark.metadata.tables import PlannedRange, Quarantined
from tests.support.metadata import header, stored

SESSION_S = 10.0
T = TypeVar("T")


@pytest.fixture
async def lease(metadata):
    return await metadata.leases.try_acquire("table", "me", 1)


async def test_the_backlog_is_what_lies_between_table_end_and_high_watermark(
    metadata, writer, partition, lease, clock
):
    assert await metadata.backlog.pending() == {}
    began = clock.wall_ms()
    for n in (1, 2):
        await metadata.sequencer.commit(
            stored(writer, n, (partition, [header(2)]), created_ms=clock.wall_ms())
        )
        await clock.advance(5.0)
    second = TopicPartition(partition.topic_id, 1)
    await metadata.sequencer.commit(
        stored(writer, 3, (second, [header(1)]), created_ms=clock.wall_ms())
    )
    (backlog,) = (await metadata.backlog.pending()).values()
    assert backlog.ranges == (PlannedRange(0, 0, 4), PlannedRange(1, 0, 1))
    assert backlog.oldest_ms == began
    assert not backlog.flush_wanted
    assert await metadata.backlog.wal_bytes() > 0

    await metadata.tables.finish(lease, partition.topic_id, "c", {0: 2, 1: 1})
    (backlog,) = (await metadata.backlog.pending()).values()
    assert backlog.ranges == (PlannedRange(0, 2, 4),)
    assert backlog.oldest_ms == began + 5_000


async def test_a_flush_is_wanted_until_the_table_has_what_was_there_when_it_was_asked_for(
    metadata, writer, partition, lease
):
    topic_id = partition.topic_id
    await metadata.sequencer.commit(stored(writer, 1, (partition, [header(3)])))
    wanted = await metadata.backlog.ask_flush(topic_id)
    assert wanted == {0: 3}
    await metadata.sequencer.commit(stored(writer, 2, (partition, [header(1)])))
    assert (await metadata.backlog.pending())[topic_id].flush_wanted
    await metadata.tables.finish(lease, topic_id, "c", {0: 3})
    assert not (await metadata.backlog.pending())[topic_id].flush_wanted
    assert reached(await metadata.backlog.table_ends(topic_id), wanted)
    assert not reached(await metadata.backlog.table_ends(topic_id), {0: 4})


async def test_two_who_ask_for_a_flush_at_once_both_get_it(open_again):
    first, second = await open_again(), await open_again()
    topic = await first.topics.create("orders", partitions=5)
    writer = await first.writers.register(BrokerId(1), "cost")
    places = [TopicPartition(topic.id, index) for index in range(5)]
    for n in range(1, 21):
        await first.sequencer.commit(stored(writer, n, *((each, [header(1)]) for each in places)))
        asked = await asyncio.gather(
            *(store.backlog.ask_flush(topic.id) for store in (first, second) for _ in range(4))
        )
        assert asked == [dict.fromkeys(range(5), n)] * 8
    assert (await first.backlog.pending())[topic.id].flush_wanted


async def test_a_flush_that_was_asked_for_is_never_taken_back_by_an_older_one(
    metadata, writer, partition, lease
):
    await metadata.sequencer.commit(stored(writer, 1, (partition, [header(2)])))
    older = _ask_flush(partition.topic_id)
    next(older)
    await metadata.sequencer.commit(stored(writer, 2, (partition, [header(2)])))
    await metadata.backlog.ask_flush(partition.topic_id)
    await metadata.database.run(_rest_of(older, [(0, 2)]))
    await metadata.tables.finish(lease, partition.topic_id, "c", {0: 2})
    assert (await metadata.backlog.pending())[partition.topic_id].flush_wanted


def _rest_of(begun: Transaction[T], rows: Rows) -> Transaction[T]:
    """A transaction that read before another one was committed, as PostgreSQL allows."""
    statement = begun.send(rows)
    while True:
        rows = yield statement
        try:
            statement = begun.send(rows)
        except StopIteration as done:
            return cast("T", done.value)


async def test_a_problem_keeps_the_time_of_its_first_report_until_it_is_cleared(
    metadata, partition, lease
):
    topic_id = partition.topic_id
    table = Problem(topic_id, None, "red", "mend it", 5, snapshot_id=2**62)
    own = Problem(topic_id, 2, "corrupt", "restore it", 6, offset=17)
    for problem in (table, own, table._replace(since_ms=9, sentence="still red")):
        await metadata.problems.report(lease, problem)
    assert await metadata.problems.list() == [table._replace(sentence="still red"), own]
    await metadata.problems.clear(lease, topic_id)
    assert await metadata.problems.list(topic_id) == [own]
    await metadata.topics.delete(topic_id)
    assert await metadata.problems.list() == []


async def test_a_problem_is_neither_reported_nor_cleared_by_who_lost_the_lease(
    metadata, partition, lease
):
    problem = Problem(partition.topic_id, None, "red", "mend it", 5)
    await metadata.problems.report(lease, problem)
    await metadata.leases.release(lease)
    with pytest.raises(Fenced):
        await metadata.problems.report(lease, problem._replace(partition=1))
    with pytest.raises(Fenced):
        await metadata.problems.clear(lease, partition.topic_id)
    assert await metadata.problems.list() == [problem]


async def test_a_job_lives_while_its_beat_moves(metadata, clock):
    mine = Job(id="a", kind="compact", started_ms=1, about={"master": "local"})
    other = Job(id="b", kind="compact", started_ms=2, about={})
    for job in (mine, other):
        await metadata.jobs.beat(job)
    assert [job.id for job in await metadata.jobs.live("compact", SESSION_S)] == ["a", "b"]
    await clock.advance(SESSION_S)
    await metadata.jobs.beat(Job(id="a", kind="compact", started_ms=1, last_success_ms=7, about={}))
    (alive,) = await metadata.jobs.live("compact", SESSION_S)
    assert (alive.id, alive.last_success_ms, alive.beat) == ("a", 7, 1)
    await metadata.jobs.forget_dead("compact", SESSION_S)
    assert [job.id for job in await metadata.jobs.list()] == ["a"]
    await metadata.jobs.leave("a")
    assert await metadata.jobs.list() == []


async def test_plans_belong_to_jobs_and_go_with_them(metadata, partition):
    ranges = {partition.topic_id: (PlannedRange(0, 0, 1),)}
    first = await metadata.tables.create_plan(ranges, job="a")
    second = await metadata.tables.create_plan(ranges, job="b")
    assert (await metadata.tables.latest_plan(job="a")).number == first
    await metadata.tables.prune_plans(second + 1, job="b")
    assert await metadata.tables.latest_plan(job="b") is None
    await metadata.jobs.leave("a")
    assert await metadata.tables.latest_plan(job="a") is None


async def test_what_a_commit_set_aside_is_remembered_once(metadata, writer, partition, lease):
    await metadata.sequencer.commit(stored(writer, 1, (partition, [header(4)])))
    aside = Quarantined(0, 1, 3, "s3://lake/_quarantine/x", "a field reaches beyond its batch")
    for _ in range(2):
        await metadata.tables.finish(lease, partition.topic_id, "c", {0: 4}, [aside])
    assert await metadata.tables.quarantined(partition.topic_id) == [aside]
