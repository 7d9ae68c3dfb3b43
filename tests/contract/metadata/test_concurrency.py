"""Several brokers on one store: offsets stay dense, nobody waits for ever, first answers count."""

import asyncio
import sys
from random import Random
from typing import TypeVar

import pytest

from lakestream_spark.core.errors import OutcomeUnknown
from lakestream_spark.core.ids import BrokerId, TopicPartition
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.database import Database, Transaction
from lakestream_spark.metadata.partitions import PartitionIds
from lakestream_spark.metadata.sequencer import SqlSequencer
from lakestream_spark.wal.receipt import BatchAnswer, Verdict
from lakestream_spark.wal.segment import StoredSegment
from tests.support.metadata import answers, header, stored

T = TypeVar("T")
ACCEPTED, DUPLICATE = Verdict.ACCEPTED, Verdict.DUPLICATE


async def _commit(metadata: Metadata, segment: StoredSegment) -> list[list[BatchAnswer]]:
    return answers(segment, await metadata.sequencer.commit(segment))


async def test_two_processes_on_one_partition_share_out_dense_offsets(shared_url, open_again):
    segments = 100
    metadata = await open_again()
    topic = await metadata.topics.create("orders")
    racers = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.committer"),
            *(shared_url, str(topic.id), str(broker), str(segments)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for broker in (1, 2)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert await racer.stdout.readline() == b"ready\n"
    offsets: list[list[int]] = [[], []]
    for race in range(1, 31):  # one may be done before the other has its turn: then again
        new = await asyncio.gather(*(_race(racer, segments) for racer in racers))
        offsets = [[*own, *more] for own, more in zip(offsets, new, strict=True)]
        assert all(own == sorted(own) for own in offsets)
        expected = [base for n in range(race * 2 * segments) for base in (4 * n, 4 * n + 3)]
        assert sorted(offsets[0] + offsets[1]) == expected
        if race >= 3 and min(new[0][-1], new[1][-1]) > max(new[0][0], new[1][0]):
            break
    else:
        raise AssertionError("the processes did not race")
    await asyncio.gather(*(racer.communicate(b"") for racer in racers))
    assert [racer.returncode for racer in racers] == [0, 0]


async def _race(racer: asyncio.subprocess.Process, segments: int) -> list[int]:
    """The offsets that a process got for its next segments."""
    assert racer.stdin is not None
    assert racer.stdout is not None
    racer.stdin.write(b"go\n")
    lines = [await racer.stdout.readline() for _ in range(segments)]
    return [int(word) for line in lines for word in line.split()]


async def test_brokers_committing_overlapping_partitions_in_any_order_never_deadlock(open_again):
    random = Random(7)
    brokers = [await open_again() for _ in range(3)]
    topic = await brokers[0].topics.create("orders", partitions=24)

    async def commit_many(metadata: Metadata, broker: int) -> list[tuple[int, int]]:
        writer = await metadata.writers.register(BrokerId(broker), "cost")
        taken = []
        for n in range(1, 13):
            indexes = random.sample(range(24), 12)
            extents = [(TopicPartition(topic.id, index), [header(1)]) for index in indexes]
            result = await _commit(metadata, stored(writer, n, *extents))
            taken += [
                (index, own[0].base_offset) for index, own in zip(indexes, result, strict=True)
            ]
        return taken

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(commit_many(brokers[n % 3], n)) for n in range(9)]
    taken = [pair for task in tasks for pair in task.result()]
    assert len(set(taken)) == len(taken) == 9 * 12 * 12
    ends = await brokers[0].tables.ends(topic.id)
    assert sum(end.high_watermark for end in ends.values()) == len(taken)


async def test_tables_topics_and_evacuation_beside_commits_never_deadlock(open_again):
    brokers = [await open_again() for _ in range(2)]
    topic = await brokers[0].topics.create("orders", partitions=8)
    doomed = await brokers[0].topics.create("doomed", partitions=8)
    lease = await brokers[1].leases.try_acquire("t", "me", 1)

    async def commit_many(metadata: Metadata, broker: int) -> None:
        writer = await metadata.writers.register(BrokerId(broker), "cost")
        for n in range(1, 16):
            both = [
                (TopicPartition(t.id, i), [header(1)]) for i in range(8) for t in (doomed, topic)
            ]
            await metadata.sequencer.commit(stored(writer, n, *both))

    async def compact() -> None:
        for number in range(10):
            ends = await brokers[1].tables.ends(topic.id)
            moved = {index: end.high_watermark for index, end in ends.items()}
            await brokers[1].tables.finish(lease, topic.id, f"c{number}", moved)
            await brokers[0].retention.delete_records(TopicPartition(topic.id, 3), moved[3])

    async with asyncio.TaskGroup() as group:
        for n in range(4):
            group.create_task(commit_many(brokers[n % 2], n))
        group.create_task(compact())
        group.create_task(brokers[1].topics.delete(doomed.id))
    assert [t.name for t in await brokers[0].topics.list()] == ["orders"]


async def test_a_retry_through_another_broker_gets_the_first_answer(open_again):
    one, other = await open_again(), await open_again()
    topic = await one.topics.create("orders")
    partition = TopicPartition(topic.id, 0)
    first = await one.writers.register(BrokerId(1), "cost")
    second = await other.writers.register(BrokerId(2), "cost")
    batch = header(3, producer=7, sequence=0)
    assert await _commit(one, stored(first, 1, (partition, [batch]))) == [[(ACCEPTED, 0)]]
    assert await _commit(other, stored(second, 1, (partition, [batch]))) == [[(DUPLICATE, 0)]]


async def test_states_a_broker_remembers_are_not_trusted_after_another_wrote(open_again):
    one, other = await open_again(), await open_again()
    topic = await one.topics.create("orders")
    partition = TopicPartition(topic.id, 0)
    first = await one.writers.register(BrokerId(1), "cost")
    second = await other.writers.register(BrokerId(2), "cost")
    batches = [header(1, producer=7, sequence=n) for n in range(5)]
    await _commit(one, stored(first, 1, (partition, batches[:1])))
    await _commit(other, stored(second, 1, (partition, batches[1:3])))
    again = await _commit(one, stored(first, 2, (partition, batches[2:4])))
    assert again == [[(DUPLICATE, 2), (ACCEPTED, 3)]]
    assert await _commit(other, stored(second, 2, (partition, batches[3:]))) == [
        [(DUPLICATE, 3), (ACCEPTED, 4)]
    ]


class LosesReplies:
    """A database whose answer to one commit gets lost after it was made."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.lose = True

    @property
    def dialect_name(self) -> str:
        return self._inner.dialect_name

    async def run(self, tx: Transaction[T]) -> T:
        result = await self._inner.run(tx)
        if self.lose:
            self.lose = False
            raise OutcomeUnknown("the reply was lost")
        return result

    async def read(self, tx: Transaction[T]) -> T:
        return await self._inner.read(tx)

    async def changed(self, within_s: float) -> None:
        await self._inner.changed(within_s)

    async def close(self) -> None:
        await self._inner.close()


async def test_a_commit_of_unknown_outcome_is_repeated_and_counts_once(
    metadata, writer, partition, clock
):
    sequencer = SqlSequencer(LosesReplies(metadata.database), PartitionIds(), clock)
    batches = [header(2, producer=7, sequence=0), header(1, producer=7, sequence=9)]
    segment = stored(writer, 1, (partition, batches))
    with pytest.raises(OutcomeUnknown):
        await sequencer.commit(segment)
    first = answers(segment, await sequencer.commit(segment))
    assert first == [[(ACCEPTED, 0), (Verdict.OUT_OF_ORDER, -1)]]
    following = stored(writer, 2, (partition, [header(1, producer=7, sequence=2)]))
    assert answers(following, await sequencer.commit(following)) == [[(ACCEPTED, 2)]]
