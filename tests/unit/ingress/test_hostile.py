"""Hostile input: each ends in a Kafka error or a closed connection with one log line that names the
peer; memory and time stay bounded; other clients notice nothing."""

import asyncio
import contextlib
import gc
import logging
import struct
import time
import tracemalloc
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from lakestream_spark.app import RunningBroker
from lakestream_spark.core.errors import Rejected
from lakestream_spark.ingress.client import Client
from lakestream_spark.ingress.dispatch import APIS
from lakestream_spark.ingress.hostile import check_size
from lakestream_spark.ingress.messages import Envelope, read_envelope, read_request
from tests.support.wire import Wire

MIB = 1024 * 1024
QUICKLY_S = 20.0
"""Far above what it takes on a busy machine, far below what unbounded work would take."""


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def header(api_key: int, version: int, *, flexible: bool = False) -> bytes:
    return struct.pack(">hhih", api_key, version, 7, -1) + (b"\0" if flexible else b"")


async def still_serves(port: int) -> None:
    """Another client gets its answer quickly."""
    async with asyncio.timeout(QUICKLY_S):
        other = await Wire.connect(port)
        await other.send(load_request_schema(18, 0)())
        _, answer = await other.receive(18, 0)
    assert answer.error_code is ErrorCode.none
    await other.close()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(struct.pack(">i", 2**31 - 1), id="length 2^31-1"),
        pytest.param(struct.pack(">i", -1), id="negative length"),
        pytest.param(struct.pack(">i", 0), id="length 0"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", id="an HTTP request"),
        pytest.param(bytes.fromhex("16030100a5010000a10303") + bytes(160), id="a TLS hello"),
        pytest.param(struct.pack(">i", 10) + header(9999, 0), id="unknown API"),
        pytest.param(struct.pack(">i", 10) + header(3, 99), id="Metadata v99"),
        pytest.param(
            struct.pack(">i", 14) + header(3, 1) + struct.pack(">i", 2**31 - 1), id="huge array"
        ),
        pytest.param(struct.pack(">i", 3) + b"abc", id="shorter than a header"),
    ],
)
async def test_what_is_no_request_closes_the_connection_with_one_line_that_names_the_peer(
    lake: RunningBroker, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    attacker = await Wire.connect(lake.address.port)
    await attacker.send_bytes(sent)
    assert await asyncio.wait_for(attacker.closed_by_peer(), QUICKLY_S)
    await attacker.close()
    lines = [r for r in caplog.records if "127.0.0.1" in r.getMessage() or "peer" in vars(r)]
    assert len(lines) == 1, [r.getMessage() for r in caplog.records]
    await still_serves(lake.address.port)


async def test_a_too_new_api_versions_is_answered_and_the_connection_stays(wire: Wire) -> None:
    await wire.send_frame(header(18, 99))
    _, answer = await wire.receive(18, 0)
    assert answer.error_code is ErrorCode.unsupported_version
    await wire.send(load_request_schema(18, 0)())
    _, again = await wire.receive(18, 0)
    assert again.error_code is ErrorCode.none


async def test_millions_of_tagged_fields_are_refused_quickly(lake: RunningBroker) -> None:
    tags = varint(5_000_000) + b"\x05\x00" * 5_000_000
    attacker = await Wire.connect(lake.address.port)
    async with asyncio.timeout(QUICKLY_S):
        with contextlib.suppress(ConnectionError):  # it need not be read to its end
            await attacker.send_frame(header(0, 9) + tags)
        assert await attacker.closed_by_peer()
    await attacker.close()
    await still_serves(lake.address.port)


async def test_a_large_frame_of_tiny_entries_is_refused_before_it_is_decoded() -> None:
    entries = 2_000_000
    frame = header(0, 3) + struct.pack(">hhii", -1, -1, 1000, 1) + struct.pack(">h", 1) + b"t"
    frame += struct.pack(">i", entries) + struct.pack(">ii", 0, -1) * entries
    envelope = read_envelope(frame)
    tracemalloc.start()
    try:
        with pytest.raises(Rejected, match="too many entries"):
            check_size(envelope, frame, MIB)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < MIB, "two million entries were made"


@pytest.mark.parametrize("api_key", sorted(set(APIS) - {0}))
def test_only_produce_may_be_large(api_key: int) -> None:
    with pytest.raises(Rejected, match="too large"):
        check_size(Envelope(api_key, 0, 1), bytes(MIB + 1), MIB)


async def test_a_truncated_frame_then_silence_holds_almost_nothing(lake: RunningBroker) -> None:
    gc.collect()
    before = psutil.Process().memory_info().rss
    declared = 90 * MIB
    attackers = [await Wire.connect(lake.address.port) for _ in range(100)]
    for attacker in attackers:
        await attacker.send_bytes(struct.pack(">i", declared) + b"x" * 100)
    await asyncio.sleep(0.2)
    # Of nine gigabytes that were declared; the rest of this process may grow as it likes.
    assert psutil.Process().memory_info().rss - before < len(attackers) * declared / 50
    await still_serves(lake.address.port)
    for attacker in attackers:
        await attacker.close()


async def test_three_hundred_idle_connections_cost_little_and_disturb_nobody(
    lake: RunningBroker,
) -> None:
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        idle = [await Wire.connect(lake.address.port) for _ in range(300)]
        await still_serves(lake.address.port)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Both ends live in this process, so the bound is for a client's and a broker's half together.
    assert after - before < 300 * 150 * 1024
    for each in idle:
        await each.close()


def decode(frame: bytes) -> Any:
    envelope = read_envelope(frame)
    api = APIS.get(envelope.api_key)
    if api is None or envelope.version not in api.versions:
        return None
    check_size(envelope, frame, MIB)
    return read_request(envelope, frame, Client())


@given(
    api=st.sampled_from(sorted(APIS)),
    version=st.integers(0, 20),
    body=st.binary(max_size=2_000),
    flexible=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes_are_decoded_or_rejected_in_bounded_time(
    api: int, version: int, body: bytes, flexible: bool
) -> None:
    began = time.thread_time()
    with contextlib.suppress(Rejected):
        decode(header(api, version, flexible=flexible) + body)
    assert time.thread_time() - began < 5


@given(data=st.data())
def test_a_real_request_with_damaged_bytes_is_decoded_or_rejected(data: st.DataObject) -> None:
    frame = bytearray(REAL_FRAMES[data.draw(st.sampled_from(sorted(REAL_FRAMES)))])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(4, len(frame) - 1))
        frame[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(8, len(frame)))
    with contextlib.suppress(Rejected):
        decode(bytes(frame[:cut]))


REAL_FRAMES = {
    "produce": header(0, 9, flexible=True)
    + b"\0"
    + struct.pack(">hi", -1, 30_000)
    + b"\x02\x06topic\x02"
    + struct.pack(">i", 0)
    + varint(101)
    + bytes(100)
    + b"\0\0\0",
    "metadata": header(3, 4) + struct.pack(">i", 1) + b"\0\x05topic\x01",
    "fetch": header(1, 4)
    + struct.pack(">iiiib", -1, 500, 1, 1000, 0)
    + struct.pack(">i", 1)
    + b"\0\x05topic"
    + struct.pack(">iiqi", 1, 0, 0, 1000),
}


def test_the_real_requests_of_this_test_are_real() -> None:
    for frame in REAL_FRAMES.values():
        assert decode(frame) is not None
