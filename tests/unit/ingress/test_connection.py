import struct
from datetime import timedelta
from pathlib import Path

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32, i32Timedelta

from lakestream_spark.app import RunningBroker
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.ingress.dispatch import OFFERED
from tests.support.batches import make_batch
from tests.support.embedded import embedded_lake
from tests.support.wire import Wire

API_VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def produce(records: bytes, *, topic: str = "orders", partition: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=i32(partition), records=Records(records))
    return ProduceRequest(
        acks=i16(-1),
        timeout=i32Timedelta.parse(timedelta(seconds=60)),
        topic_data=(TopicProduceData(name=TopicName(topic), partition_data=(data,)),),
    )


async def test_api_versions_lists_what_dispatch_offers_and_produce_from_the_beginning(
    wire: Wire,
) -> None:
    await wire.send(API_VERSIONS)
    _, body = await wire.receive(18, 3)
    listed = {api.api_key: range(api.min_version, api.max_version + 1) for api in body.api_keys}
    assert listed == OFFERED | {0: range(OFFERED[0][-1] + 1)}


async def test_answers_leave_in_request_order_though_later_ones_are_ready_first(
    lake: RunningBroker, wire: Wire
) -> None:
    await lake.metadata.topics.create("orders")
    await wire.send(produce(make_batch([b"a"])), 1)
    await wire.send(API_VERSIONS, 2)
    assert (await wire.receive(0, 9))[0] == 1
    assert (await wire.receive(18, 3))[0] == 2


async def test_pipelined_produces_share_a_flush_and_keep_their_order(tmp_path: Path) -> None:
    # Long between flushes: all five are read before the first, also by a slow machine.
    async with embedded_lake(tmp_path, flush_ms=2000) as lake:
        wire = await Wire.connect(lake.address.port)
        topic = await lake.metadata.topics.create("orders")
        for number in range(5):
            await wire.send(produce(make_batch([b"a", b"b"])), number)
        offsets = []
        for number in range(5):
            correlation_id, body = await wire.receive(0, 9)
            assert correlation_id == number
            offsets.append(body.responses[0].partition_responses[0].base_offset)
        assert offsets == [0, 2, 4, 6, 8]
        located = await lake.metadata.extents.locate(TopicPartition(topic.id, 0), 0, 1 << 20)
        assert len({extent.segment_id for extent in located.extents}) == 1
        await wire.close()


@pytest.mark.parametrize(
    ("topic", "partition", "records", "code"),
    [
        ("nowhere", 0, make_batch([b"a"]), ErrorCode.unknown_topic_or_partition),
        ("orders", 7, make_batch([b"a"]), ErrorCode.unknown_topic_or_partition),
        ("orders", 0, make_batch([b"a"])[:-1], ErrorCode.invalid_record),
        ("orders", 0, make_batch([bytes(2_000_000)]), ErrorCode.message_too_large),
    ],
)
async def test_bad_partition_is_a_value_in_the_answer(
    lake: RunningBroker, wire: Wire, topic: str, partition: int, records: bytes, code: ErrorCode
) -> None:
    await lake.metadata.topics.create("orders")
    await wire.send(produce(records, topic=topic, partition=partition))
    _, body = await wire.receive(0, 9)
    assert body.responses[0].partition_responses[0].error_code is code


async def test_unknown_version_of_api_versions_is_answered_and_the_connection_stays(
    wire: Wire,
) -> None:
    await wire.send_frame(struct.pack(">hhi", 18, 99, 7) + b"\xff" * 20)
    correlation_id, body = await wire.receive(18, 0)
    assert (correlation_id, body.error_code) == (7, ErrorCode.unsupported_version)
    await wire.send(API_VERSIONS)
    assert (await wire.receive(18, 3))[1].error_code is ErrorCode.none


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", 3) + b"abc",
        struct.pack(">ihhi", 8, 999, 0, 1),
        struct.pack(">ihhi", 8, 3, 99, 1),
        struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
    ],
    ids=[
        "huge length",
        "negative length",
        "no length",
        "http",
        "no header",
        "unknown api",
        "unknown version",
        "huge array",
    ],
)
async def test_hostile_bytes_close_the_connection_and_no_other(
    lake: RunningBroker, wire: Wire, data: bytes
) -> None:
    hostile = await Wire.connect(lake.address.port)
    await hostile.send_bytes(data)
    assert await hostile.closed_by_peer()
    await hostile.close()
    await wire.send(API_VERSIONS)
    assert (await wire.receive(18, 3))[1].error_code is ErrorCode.none
