"""Produce: the same requests to both clusters, and the same answers."""

import struct
from typing import Any, Final
from zlib import crc32

import pytest
from crc32c import crc32c

from lakestream_spark.kafka.codecs import Codec
from tests.compat.clusters import Cluster, differs
from tests.compat.comparison import Comparisons
from tests.compat.peer import NOBODY, Peer, RawTopic, plain, produced
from tests.support.batches import FIRST_TIMESTAMP_MS, make_batch

COMPARED: Final = Comparisons()

_MAGIC: Final = 16
_CRC: Final = 17
_ATTRIBUTES: Final = 21


@COMPARED.add()
async def a_produced_batch_is_answered_with_its_offset(peer: Peer) -> Any:
    await peer.create()
    return [await produced(peer, make_batch([b"a", b"b"])) for _ in range(3)]


@COMPARED.add(differs("log-start-in-produce", lakestream=-1, kafka=0))
async def the_answer_says_where_the_log_starts(peer: Peer) -> Any:
    await peer.create()
    return (await peer.produce(make_batch([b"x"]))).log_start_offset


@COMPARED.add()
async def a_produced_batch_of_every_codec(peer: Peer) -> Any:
    await peer.create()
    answers = [await produced(peer, make_batch([b"a" * 99], codec=codec)) for codec in Codec]
    return answers, plain((await peer.fetch(0)).responses)


@COMPARED.add()
async def produce_in_every_version(peer: Peer) -> Any:
    topic = await peer.create()
    return [
        await produced(peer, make_batch([b"x"]), version=version, topic=topic)
        for version in range(3, 14)
    ]


@COMPARED.add()
async def produce_with_acks_1(peer: Peer) -> Any:
    await peer.create()
    return await produced(peer, make_batch([b"x"]), acks=1)


@COMPARED.add()
async def produce_with_invalid_acks(peer: Peer) -> Any:
    await peer.create()
    return [await produced(peer, make_batch([b"x"]), acks=acks) for acks in (2, -2)]


@COMPARED.add()
async def produce_to_an_unknown_topic(peer: Peer) -> Any:
    return await produced(peer, make_batch([b"x"]))


@COMPARED.add()
async def produce_to_an_unknown_partition(peer: Peer) -> Any:
    await peer.create()
    return [await produced(peer, make_batch([b"x"]), partition=which) for which in (1, -1)]


@COMPARED.add()
async def produce_to_an_unknown_topic_id(peer: Peer) -> Any:
    return await produced(peer, make_batch([b"x"]), version=13, topic=RawTopic("", NOBODY))


@COMPARED.add()
async def produce_a_batch_with_a_wrong_crc(peer: Peer) -> Any:
    await peer.create()
    batch = bytearray(make_batch([b"x"]))
    batch[_CRC] ^= 1
    return await produced(peer, bytes(batch)), plain((await peer.fetch(0)).responses)


@COMPARED.add()
async def produce_a_batch_with_a_flipped_bit(peer: Peer) -> Any:
    await peer.create()
    batch = bytearray(make_batch([b"xyz"]))
    batch[-2] ^= 1
    return await produced(peer, bytes(batch))


@COMPARED.add()
async def produce_a_message_of_the_old_magic(peer: Peer) -> Any:
    await peer.create()
    v1 = struct.pack(">bbqii", 1, 0, FIRST_TIMESTAMP_MS, -1, 1) + b"x"
    crc = crc32(v1)
    message = struct.pack(">qiI", 0, len(v1) + 4, crc) + v1
    return await produced(peer, message, version=3), await produced(peer, message)


@COMPARED.add(differs("unknown-magic", lakestream="invalid_record", kafka="corrupt_message"))
async def produce_a_batch_of_an_unknown_magic(peer: Peer) -> Any:
    await peer.create()
    batch = bytearray(make_batch([b"x"]))
    batch[_MAGIC] = 9
    return await code_of(peer, bytes(batch))


@COMPARED.add()
async def produce_a_batch_above_the_topics_limit(peer: Peer) -> Any:
    await peer.create(configs={"max.message.bytes": "200"})
    return [await produced(peer, make_batch([b"x" * size])) for size in (100, 200)]


@COMPARED.add()
async def produce_a_batch_above_the_brokers_limit(peer: Peer) -> Any:
    await peer.create()
    return await produced(peer, make_batch([bytes(1_100_000)]))


@COMPARED.add()
async def produce_nothing(peer: Peer) -> Any:
    await peer.create()
    return await produced(peer, b"")


@COMPARED.add(differs("many-batches-in-a-request", lakestream="none", kafka="invalid_record"))
async def produce_two_batches_at_once(peer: Peer) -> Any:
    await peer.create()
    return await code_of(peer, make_batch([b"x"]) + make_batch([b"y"]))


@COMPARED.add()
async def produce_a_truncated_batch(peer: Peer) -> Any:
    await peer.create()
    batch = make_batch([b"x" * 50])
    return [await produced(peer, batch[:size]) for size in (100, 61, 30, 5)]


@COMPARED.add()
async def produce_a_batch_whose_count_is_wrong(peer: Peer) -> Any:
    await peer.create()
    return await produced(peer, resealed(make_batch([b"x", b"y"]), 57, ">i", 3))


@COMPARED.add()
async def produce_a_batch_whose_last_offset_delta_is_wrong(peer: Peer) -> Any:
    await peer.create()
    return await produced(peer, resealed(make_batch([b"x", b"y"]), 23, ">i", 5))


@COMPARED.add()
async def produce_a_control_batch(peer: Peer) -> Any:
    await peer.create()
    return await produced(peer, resealed(make_batch([b"x"]), _ATTRIBUTES, ">h", 0x20))


@COMPARED.add(differs("unknown-codec", lakestream="invalid_record", kafka="unknown_server_error"))
async def produce_a_batch_of_an_unknown_codec(peer: Peer) -> Any:
    await peer.create()
    return await code_of(peer, resealed(make_batch([b"x"]), _ATTRIBUTES, ">h", 5))


@COMPARED.add(differs("claimed-append-time", lakestream="invalid_timestamp", kafka="none"))
async def produce_a_batch_that_claims_append_time(peer: Peer) -> Any:
    await peer.create()
    return await code_of(peer, resealed(make_batch([b"x"]), _ATTRIBUTES, ">h", 8))


@COMPARED.add(differs("base-offset-of-a-producer", lakestream="none", kafka="invalid_record"))
async def produce_a_batch_whose_base_offset_is_not_zero(peer: Peer) -> Any:
    await peer.create()
    batch = struct.pack(">q", 77) + make_batch([b"x", b"y"])[8:]
    return await code_of(peer, batch)


@COMPARED.add()
async def produce_to_a_topic_with_append_time(peer: Peer) -> Any:
    await peer.create(configs={"message.timestamp.type": "LogAppendTime"})
    answer = await produced(peer, make_batch([b"x", b"y"]))
    (topic,) = (await peer.fetch(0)).responses
    fetched = plain(topic)["partitions"][0]["records"][0]
    recent = fetched.max_timestamp > FIRST_TIMESTAMP_MS + 86_400_000
    return answer, fetched.attributes, recent, fetched.record_count


@COMPARED.add()
async def produce_a_record_without_key_to_a_compacted_topic(peer: Peer) -> Any:
    await peer.create(configs={"cleanup.policy": "compact"})
    return await produced(peer, make_batch([b"x"]))


async def code_of(peer: Peer, batches: bytes) -> str:
    return str((await peer.produce(batches)).error_code.name)


def resealed(batch: bytes, position: int, form: str, value: int) -> bytes:
    """The batch with another field and a CRC that fits."""

    changed = bytearray(batch)
    struct.pack_into(form, changed, position, value)
    struct.pack_into(">I", changed, _CRC, crc32c(bytes(changed[_ATTRIBUTES:])))
    return bytes(changed)


@pytest.mark.parametrize("name", COMPARED.names)
async def test_both_answer_the_same(name: str, lakestream: Cluster, kafka: Cluster) -> None:
    await COMPARED.run(name, lakestream, kafka)
