"""One topic with every kind of lawful hole, made in our table and in a compacted topic of Kafka.

    partition 0  holes at the log start, inside of batches, at their ends and beginnings, a whole
                 batch (here: a whole file), and at the very end
    partition 1  the same, and records after the last hole (here: in the WAL)
    partition 2  nothing but a hole
    partition 3  as 1, with its log start inside of a hole

Here rows are erased from the table. Kafka loses records to others with the same key, and shows an
aborted transaction to nobody: so both show the same offsets to who reads what is committed.
"""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from lakestream_spark.kafka.records import Record, encode_batch
from tests.compat.clusters import Cluster, unique
from tests.compat.lakes import Lake
from tests.compat.peer import TIMEOUT, Peer

HOLES: Final = unique("holes")
"""The topic, which has this name in both."""
GONE: Final = b"gone"
_LOG_START: Final = {0: 0, 1: 0, 2: 0, 3: 14}
ENDS: Final = {0: 60, 1: 80, 2: 10, 3: 80}
_INSIDE: Final = (0, 1, 2, 13, 14, 28, 29, *range(30, 40), 40, 41)
_HOLES: Final = {
    0: (*_INSIDE, *range(55, 60)),
    1: (*_INSIDE, *range(55, 60)),
    2: tuple(range(10)),
    3: (*_INSIDE, *range(55, 60)),
}
_BORDERS: Final = {
    0: (0, 10, 20, 30, 40, 50, 55, 60),
    1: (0, 10, 20, 30, 40, 50, 60, 70, 80),
    2: (0, 10),
    3: (0, 10, 20, 30, 40, 50, 60, 70, 80),
}
_IN_TABLE: Final = 60
_ABORTED: Final = {0: 55, 2: 0}
"""What a transaction sent that was aborted, from this offset to the end, its marker included."""
_LAST_OF_ITS_KEY: Final = {0: 50, 1: 60, 3: 60}
_FIRST_MS: Final = 1_700_000_000_000
_APART_MS: Final = 10_000
_COMPACTED: Final = {
    "cleanup.policy": "compact,delete",
    "retention.ms": "-1",
    "min.cleanable.dirty.ratio": "0",
    # Each batch begins a segment, by its time, and all but the last one are cleaned.
    "segment.ms": str(_APART_MS // 2),
}

Starts = Mapping[int, int]
"""Where reading begins, by partition."""


class Reading(NamedTuple):
    """The offsets that came, in their order, and where the reader stood at last, by partition."""

    seen: dict[int, list[int]]
    ends: dict[int, int]


EARLIEST: Final[Starts] = _LOG_START
INSIDE: Final[Sequence[Starts]] = (
    {0: 33, 1: 56, 2: 4, 3: 14},
    {0: 56, 1: 1, 2: 9, 3: 31},
)


def expected(starts: Starts) -> Reading:
    """Every record from there on once, and the end of each partition reached."""
    return Reading(
        {
            partition: [n for n in range(start, ENDS[partition]) if n not in _HOLES[partition]]
            for partition, start in starts.items()
        },
        {partition: ENDS[partition] for partition in starts},
    )


async def make_in_tables(lake: Lake, topic: str) -> None:
    """The whole batch of [30, 40) is a file of its own."""
    async with Peer(lake.cluster, topic) as peer:
        await peer.create(partitions=len(ENDS))
        for first, after in pairwise((0, 30, 40, _IN_TABLE)):
            for partition in ENDS:
                await _send(peer, partition, range(first, after))
            await lake.compact(topic)
        for partition, gone in _HOLES.items():
            await asyncio.to_thread(lake.erase, topic, gone, partition)
        for partition in ENDS:
            await _send(peer, partition, range(_IN_TABLE, 100))
        await _delete_records(peer)


async def make_in_kafka(kafka: Cluster, topic: str) -> None:
    """They are holes once the cleaner came by."""
    async with Peer(kafka, topic) as peer:
        await peer.create(partitions=len(ENDS), configs=_COMPACTED)
        for partition in ENDS:
            await _send(peer, partition, range(_ABORTED.get(partition, 100)))
        await asyncio.to_thread(_abort, kafka.bootstrap, topic)
        await _delete_records(peer)


async def _send(peer: Peer, partition: int, offsets: range) -> None:
    """The batches of a partition that lie in these offsets."""
    borders = _BORDERS[partition]
    for first, after in pairwise(borders):
        if first in offsets:
            answer = await peer.produce(_batch(partition, first, after), partition=partition)
            assert (answer.error_code, answer.base_offset) == (ErrorCode.none, first)


def _batch(partition: int, first: int, after: int) -> bytes:
    return encode_batch(
        [
            Record(offset - first, time_of(offset), _key(partition, offset), b"%d" % offset)
            for offset in range(first, after)
        ]
    )


def time_of(offset: int) -> int:
    """Of a record, which is the same in both."""
    return _FIRST_MS + offset // 10 * _APART_MS + offset % 10


def _key(partition: int, offset: int) -> bytes:
    lost = offset in _HOLES[partition] or offset == _LAST_OF_ITS_KEY.get(partition)
    return GONE if lost else b"%d" % offset


def _abort(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-aborts"})
    producer.init_transactions(TIMEOUT.total_seconds())
    producer.begin_transaction()
    for partition, first in _ABORTED.items():
        for offset in range(first, ENDS[partition] - 1):
            producer.produce(topic, b"%d" % offset, key=b"%d" % offset, partition=partition)
    assert producer.flush(TIMEOUT.total_seconds()) == 0
    producer.abort_transaction(TIMEOUT.total_seconds())


async def _delete_records(peer: Peer) -> None:
    api = peer.api(21, 2)
    partitions = tuple(
        api.part("DeleteRecordsPartition", partition_index=partition, offset=start)
        for partition, start in _LOG_START.items()
        if start
    )
    answer = await api.ask(
        "DeleteRecordsRequest",
        timeout=TIMEOUT,
        topics=(api.part("DeleteRecordsTopic", name=peer.topic, partitions=partitions),),
    )
    assert all(each.error_code is ErrorCode.none for each in answer.topics[0].partitions)
