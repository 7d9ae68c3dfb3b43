"""What exists only in Parquet is, byte for byte, what Apache Kafka gives for the same input.

The same batches go to both clusters. Ours are moved into the table, so that no WAL holds them any
more, and read back; offsets by time are asked for as well.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.kafka.batch import APPEND_TIME_FLAG, walk
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import (
    Record,
    RecordHeader,
    decode_records,
    encode_batch,
)
from lakestream_spark.metadata import open_metadata
from lakestream_spark.metadata.topic_config.lakestream import NAMESPACE
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.layout import TOPIC_NAME_PROPERTY
from tests.compat.clusters import Cluster, unique
from tests.compat.conftest import QUICK_FLUSH
from tests.compat.peer import Peer
from tests.support.embedded import catalog_spec, metadata_url
from tests.support.ingress_process import ingress
from tests.support.kafka import consume
from tests.support.kafka_tools import CONSOLE_CONSUMER, tool
from tests.support.record_bytes import CODECS, I64, record_lists
from tests.support.sparkless import SparklessCompaction

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """A broker whose records can be moved into their tables."""

    cluster: Cluster
    folder: Path

    async def compact(self, topic: str) -> None:
        """Afterwards no WAL has a record of the topic."""
        await asyncio.to_thread(self._drain)
        metadata = await open_metadata(metadata_url(self.folder), clock=SystemClock())
        found = await metadata.topics.get(topic)
        located = await metadata.extents.locate(TopicPartition(found.id, 0), 0, 1)
        await metadata.close()
        assert located.extents == ()
        assert located.ends.table_end == located.ends.high_watermark

    def erase(self, topic: str, offsets: Sequence[int]) -> None:
        """As any engine may: rows leave the table."""
        with closing(StreamCatalog.open(catalog_spec(self.folder))) as tables:
            (table,) = (
                found
                for name in tables._catalog.list_tables(NAMESPACE)
                if (found := tables._catalog.load_table(name)).properties[TOPIC_NAME_PROPERTY]
                == topic
            )
            table.delete(f"__offset IN ({', '.join(map(str, offsets))})")

    def _drain(self) -> None:
        compaction = SparklessCompaction(self.folder)
        compaction.run_until_drained()
        compaction.close()


@contextmanager
def running_lake(folder: Path) -> Iterator[Lake]:
    with ingress(folder, *QUICK_FLUSH) as process:
        (listening,) = process.ready()
        yield Lake(cluster=Cluster(name="lakestream", bootstrap=listening.kafka), folder=folder)
        assert process.stop() == 0, "".join(process.log)


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    with (
        TemporaryDirectory(prefix="lakestream-replay-") as folder,
        running_lake(Path(folder)) as up,
    ):
        yield up


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


def _by_java(bootstrap: str, topic: str, count: int, start: int = 0) -> str:
    options = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0"]
    options += ["--offset", str(start), "--max-messages", str(count), "--timeout-ms", "120000"]
    for shown in ("timestamp", "key", "offset", "headers", "value"):
        options += ["--formatter-property", f"print.{shown}=true"]
    return tool(CONSOLE_CONSUMER, *options).out


async def test_no_client_waits_at_a_hole(lake: Lake) -> None:
    """At the first offsets, in between, and from the last rows of the table on to the WAL."""
    topic = unique("replay")
    async with Peer(lake.cluster, topic) as peer:
        assert await send(peer, [Sent(ODD)] * 4)
        await lake.compact(topic)
        await asyncio.to_thread(lake.erase, topic, [0, 1, 7, 8, 9, 17, 18, 19])
        answer = await peer.produce(encode_batch(ODD))
        assert answer.base_offset == 20
    left = [2, 3, 4, 5, 6, *range(10, 17), *range(20, 25)]
    seen = await asyncio.to_thread(_by_librdkafka, lake.cluster.bootstrap, topic, len(left))
    assert [record.offset for record in seen] == left
    for start, expected in ((0, left), (18, left[-5:])):
        shown = await asyncio.to_thread(
            _by_java, lake.cluster.bootstrap, topic, len(expected), start
        )
        assert re.findall(r"Offset:(\d+)", shown) == [str(offset) for offset in expected]


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
