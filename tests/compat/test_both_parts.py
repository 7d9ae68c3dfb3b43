"""Questions about a topic that lies half in its table and half in the WAL: answered as by Kafka.

ListOffsets by time and by the newest time, and OffsetForLeaderEpoch. The same batches go to both
clusters; of ours the first half is moved into the table, so that no WAL has it any more.
"""

import asyncio
from collections.abc import Sequence
from itertools import chain
from random import Random
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from lakestream_spark.kafka.batch import walk
from lakestream_spark.kafka.records import Record, encode_batch
from tests.compat.clusters import Cluster, unique
from tests.compat.lakes import Lake
from tests.compat.peer import TIMEOUT, Peer, plain
from tests.support.batches import FIRST_TIMESTAMP_MS

Batches = Sequence[Sequence[int]]
"""The times of the records of each batch."""
NEWEST: Final = -3
LATER: Final = 1_000_000


def by_chance(random: Random) -> tuple[Batches, Batches]:
    batches = [random.choices(range(12), k=3) for _ in range(5)]
    return batches[:3], batches[3:]


CASES: Final[dict[str, tuple[Batches, Batches]]] = {
    "rising": ([[0, 1, 2], [3, 4]], [[5, 6], [7]]),
    "falling": ([[9, 8, 7], [6, 5]], [[4, 3], [2]]),
    "all equal": ([[5, 5, 5], [5]], [[5, 5], [5]]),
    "equal at the seam": ([[1, 4], [4, 4]], [[4, 4], [7]]),
    "the newest in the table": ([[1, 90, 2], [90]], [[5, 6], [4]]),
    "the newest in the WAL": ([[1, 9, 2]], [[5, 6], [90, 90]]),
    "the newest in both": ([[1, 90], [90, 3]], [[90, 2], [90]]),
    "an old half that is newer": ([[50, 60]], [[10, 20], [30]]),
    "jumps over the seam": ([[10, 30], [20]], [[15, 25], [30, 40]]),
    "nothing in the WAL": ([[3, 1], [2]], []),
    "nothing in the table": ([], [[3, 1], [2]]),
    "nothing at all": ([], []),
    **{f"by chance, {seed}": by_chance(Random(seed)) for seed in (1, 2, 3)},
}
TOPIC: Final = unique("both-parts")


@pytest.fixture(scope="module")
def halves(lake: Lake, kafka: Cluster) -> Lake:
    """A partition for each case, in both clusters."""

    async def make() -> None:
        async with Peer(lake.cluster, TOPIC) as ours, Peer(kafka, TOPIC) as theirs:
            for peer in (ours, theirs):
                await peer.create(partitions=len(CASES))
                await send(peer, [old for old, _ in CASES.values()])
            await lake.compact(TOPIC)
            for peer in (ours, theirs):
                await send(peer, [new for _, new in CASES.values()])

    asyncio.run(make())
    return lake


async def send(peer: Peer, batches: Sequence[Batches]) -> None:
    for partition, own in enumerate(batches):
        for times in own:
            records = [
                Record(offset, FIRST_TIMESTAMP_MS + time, None, b"v")
                for offset, time in enumerate(times)
            ]
            answer = await peer.produce(encode_batch(records), partition=partition)
            assert answer.error_code is ErrorCode.none


@pytest.mark.parametrize("case", CASES)
async def test_offsets_by_time_over_both_parts(halves: Lake, kafka: Cluster, case: str) -> None:
    partition = list(CASES).index(case)
    known = set(chain.from_iterable(chain.from_iterable(CASES[case])))
    wanted = sorted({0, LATER, *known, *(time + 1 for time in known)})
    times = [NEWEST, *(FIRST_TIMESTAMP_MS + time for time in wanted), 0, 2**62]
    answers = []
    for cluster in (halves.cluster, kafka):
        async with Peer(cluster, TOPIC) as peer:
            answers.append(
                [
                    (time, plain(await peer.list_offsets(time, partition_index=partition)))
                    for time in times
                ]
            )
    ours, theirs = answers
    assert ours == theirs


async def end_of_epoch(peer: Peer, partition: int, epoch: int, current: int = -1) -> Any:
    api = peer.api(23, 4)
    answer = await api.ask(
        "OffsetForLeaderEpochRequest",
        replica_id=-1,
        topics=(
            api.part(
                "OffsetForLeaderTopic",
                topic=peer.topic,
                partitions=(
                    api.part(
                        "OffsetForLeaderPartition",
                        partition=partition,
                        current_leader_epoch=current,
                        leader_epoch=epoch,
                    ),
                ),
            ),
        ),
    )
    return plain(answer.topics[0].partitions)


async def test_the_ends_of_leader_epochs_over_both_parts(halves: Lake, kafka: Cluster) -> None:
    asked = [
        (list(CASES).index(case), epoch, current)
        for case in ("rising", "nothing in the WAL", "nothing in the table", "nothing at all")
        for epoch, current in ((0, -1), (0, 0), (1, -1), (1, 0), (-1, -1), (0, 1))
    ]
    answers = []
    for cluster in (halves.cluster, kafka):
        async with Peer(cluster, TOPIC) as peer:
            answers.append([(each, await end_of_epoch(peer, *each)) for each in asked])
    ours, theirs = answers
    assert ours == theirs


async def test_batches_of_both_parts_carry_the_epoch_that_is_asked_about(
    halves: Lake, kafka: Cluster
) -> None:
    """A Java client asks for the end of the epoch that it saw last."""
    epochs = []
    for cluster in (halves.cluster, kafka):
        async with Peer(cluster, TOPIC) as peer:
            found = set()
            for offset in (0, 5):
                answer = await peer.fetch(offset, partition=0)
                (partition,) = answer.responses[0].partitions
                headers = [each for _, each in walk(bytes(partition.records), where="an answer")]
                assert headers
                found |= {each.leader_epoch for each in headers}
            epochs.append(found)
    assert epochs[0] == epochs[1]


async def test_deleted_records_of_the_table_half_are_found_by_no_time(
    halves: Lake, kafka: Cluster
) -> None:
    """The log start lies inside of the table, and then inside of the WAL."""
    topic = unique("both-parts")
    answers: list[list[Any]] = [[], []]
    async with Peer(halves.cluster, topic) as ours, Peer(kafka, topic) as theirs:
        for peer in (ours, theirs):
            await peer.create()
            await send(peer, [[[5, 1], [2, 9]]])
        await halves.compact(topic)
        for peer in (ours, theirs):
            await send(peer, [[[3, 4], [6, 7]]])
        for start in (1, 3, 4, 5, 7):
            for found, peer in zip(answers, (ours, theirs), strict=True):
                await delete_records(peer, start)
                found.append(
                    [
                        plain(await peer.list_offsets(FIRST_TIMESTAMP_MS + time))
                        for time in range(11)
                    ]
                    + [plain(await peer.list_offsets(special)) for special in (-1, -2)]
                    + [await end_of_epoch(peer, 0, 0)]
                )
    ours_found, theirs_found = answers
    assert ours_found == theirs_found


async def delete_records(peer: Peer, offset: int) -> None:
    api = peer.api(21, 2)
    partition = api.part("DeleteRecordsPartition", partition_index=0, offset=offset)
    answer = await api.ask(
        "DeleteRecordsRequest",
        timeout=TIMEOUT,
        topics=(api.part("DeleteRecordsTopic", name=peer.topic, partitions=(partition,)),),
    )
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none
