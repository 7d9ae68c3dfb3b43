"""What exists only in Parquet is, byte for byte, what Apache Kafka gives for the same input.

The same batches go to both clusters. Ours are moved into the table, so that no WAL holds them any
more, and read back; offsets by time are asked for as well.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from lakestream_spark.kafka.batch import APPEND_TIME_FLAG, walk
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import (
    Record,
    RecordHeader,
    decode_records,
    encode_batch,
)
from tests.compat.clusters import Cluster, unique
from tests.compat.lakes import Lake
from tests.compat.peer import Peer
from tests.support.kafka import consume
from tests.support.kafka_tools import CONSOLE_CONSUMER, tool
from tests.support.record_bytes import CODECS, I64, record_lists

ANY_TIME: Final = str(2**63 - 1)
CONFIGS: Final = {
    "retention.ms": "-1",
    "message.timestamp.before.max.ms": ANY_TIME,
    "message.timestamp.after.max.ms": ANY_TIME,
}
TIMES: Final = (-2, 0, 1, 5, 1_000, 2**40, 2**62)


class Sent(NamedTuple):
    """A batch as a producer sends it."""

    records: Sequence[Record]
    codec: Codec = Codec.NONE


class Given(NamedTuple):
    """A record as a consumer gets it, and whether its time is the broker's."""

    record: Record
    append_time: bool


async def send(peer: Peer, sent: Sequence[Sent], **configs: str) -> bool:
    """Whether the cluster took them all."""
    await peer.create(configs={**CONFIGS, **configs})
    answers = [await peer.produce(encode_batch(b.records, codec=b.codec)) for b in sent]
    return all(answer.error_code is ErrorCode.none for answer in answers)


async def read_back(peer: Peer, count: int) -> list[Given]:
    """All records, from the first to the last, answer by answer."""
    found: list[Given] = []
    at = 0
    while at < count:
        answer = await peer.fetch(at)
        (partition,) = answer.responses[0].partitions
        assert partition.error_code is ErrorCode.none
        data = bytes(partition.records)
        for position, header in walk(data, where="an answer"):
            append_time = bool(header.attributes & APPEND_TIME_FLAG)
            records = decode_records(data[position : position + header.size], header)
            found += [Given(record, append_time) for record in records if record.offset >= at]
            at = max(at, header.base_offset + header.offsets)
    return found


async def offsets_by_time(peer: Peer) -> Any:
    found = [await peer.list_offsets(time, version=7) for time in TIMES]
    return [(each.error_code, each.offset, each.timestamp) for each in found]


async def from_both(
    lake: Lake, kafka: Cluster, sent: Sequence[Sent], **configs: str
) -> tuple[list[Any], list[Any]] | None:
    """What each cluster gives back; None when Kafka does not take it."""
    topic, count = unique("replay"), sum(len(batch.records) for batch in sent)
    async with Peer(kafka, topic) as theirs, Peer(lake.cluster, topic) as ours:
        if not await send(theirs, sent, **configs):
            return None
        assert await send(ours, sent, **configs)
        await lake.compact(topic)
        answers = [
            [await read_back(peer, count), await offsets_by_time(peer)] for peer in (ours, theirs)
        ]
        return answers[0], answers[1]


@st.composite
def batches(draw: st.DrawFn) -> Sent:
    """Consecutive offsets, as a producer must number them."""
    records = [
        record._replace(offset=offset, timestamp=draw(st.sampled_from(TIMES) | I64))
        for offset, record in enumerate(draw(record_lists(6)))
    ]
    return Sent(records, draw(CODECS))


@settings(max_examples=20)
@given(sent=st.lists(batches(), min_size=1, max_size=5))
def test_everything_a_producer_can_send_comes_back_as_from_kafka(
    lake: Lake, kafka: Cluster, sent: list[Sent]
) -> None:
    answers = asyncio.run(from_both(lake, kafka, sent))
    assert answers is not None, "Kafka takes any time here"
    ours, theirs = answers
    assert ours == theirs
    assert [given.record for given in ours[0]] == [
        record._replace(offset=offset)
        for offset, record in enumerate(record for batch in sent for record in batch.records)
    ]


ODD: Final = (
    Record(0, 5, None, None),
    Record(1, 4, b"", b""),
    Record(2, -1, b"key", b"value", (RecordHeader(b"a", b"1"), RecordHeader(b"a", None))),
    Record(3, 6, b"\x00k", b"\x00" * 300, (RecordHeader(b"", b""), RecordHeader(b"a", b"1"))),
    Record(4, 2**41, b"k", None, tuple(RecordHeader(b"h", b"%d" % n) for n in range(20))),
)


async def test_clients_see_no_difference_between_table_and_kafka(
    lake: Lake, kafka: Cluster
) -> None:
    topic = unique("replay")
    sent = [Sent(ODD, codec) for codec in Codec]
    count = len(ODD) * len(sent)
    for cluster in (kafka, lake.cluster):
        async with Peer(cluster, topic) as peer:
            assert await send(peer, sent)
    await lake.compact(topic)
    for read in (_by_librdkafka, _by_java):
        ours, theirs = [
            await asyncio.to_thread(read, cluster.bootstrap, topic, count)
            for cluster in (lake.cluster, kafka)
        ]
        assert ours == theirs


def _by_librdkafka(bootstrap: str, topic: str, count: int) -> Any:
    return consume(bootstrap, topic, offset=0, count=count)


def _by_java(bootstrap: str, topic: str, count: int) -> str:
    options = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0"]
    options += ["--offset", "0", "--max-messages", str(count), "--timeout-ms", "120000"]
    for shown in ("timestamp", "key", "offset", "headers", "value"):
        options += ["--formatter-property", f"print.{shown}=true"]
    return tool(CONSOLE_CONSUMER, *options).out


async def test_append_time_comes_back_as_the_brokers(lake: Lake, kafka: Cluster) -> None:
    answers = await from_both(
        lake,
        kafka,
        [Sent(ODD), Sent(ODD, Codec.LZ4)],
        **{"message.timestamp.type": "LogAppendTime"},
    )
    assert answers is not None
    ours, theirs = (
        [(g.record._replace(timestamp=0), g.append_time) for g in a[0]] for a in answers
    )
    assert ours == theirs
    times = [given.record.timestamp for given in answers[0][0]]
    assert len(set(times[: len(ODD)])) == 1
    assert min(times) > 2**40
