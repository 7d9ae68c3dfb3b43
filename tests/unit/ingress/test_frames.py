"""Frames: whole ones come out as they went in, and memory follows what really came."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakestream_spark.core.errors import Rejected
from lakestream_spark.ingress.frames import FrameBuffer

LIMIT = 100 * 1024 * 1024


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def feed(buffer: FrameBuffer, data: bytes) -> int:
    """Put in what fits now, as a socket would; how much that was."""
    if buffer.full or buffer.stuck:
        return 0
    space = buffer.space()
    taken = min(len(space), len(data))
    space[:taken] = data[:taken]
    buffer.received(taken)
    return taken


def drain(buffer: FrameBuffer) -> list[bytes]:
    out = []
    while (frame := buffer.frame()) is not None:
        out.append(bytes(frame))
        buffer.taken(len(frame))
    return out


@given(
    bodies=st.lists(st.binary(min_size=1, max_size=20_000), max_size=8),
    pieces=st.lists(st.integers(1, 9_000), min_size=1, max_size=50),
)
def test_frames_come_out_as_they_went_in_however_the_bytes_arrive(
    bodies: list[bytes], pieces: list[int]
) -> None:
    stream, out, buffer, turn = b"".join(map(framed, bodies)), [], FrameBuffer(LIMIT), 0
    while stream:
        size = pieces[turn % len(pieces)]
        turn += 1
        taken = feed(buffer, stream[:size])
        stream = stream[taken:]
        if turn % 3 == 0 or not taken:
            out += drain(buffer)
    assert out + drain(buffer) == bodies


@pytest.mark.parametrize("size", [0, -1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_a_size_that_is_not_allowed_is_refused_at_once(size: int) -> None:
    buffer = FrameBuffer(LIMIT)
    feed(buffer, struct.pack(">i", size))
    with pytest.raises(Rejected, match=f"size={size}"):
        buffer.frame()


def test_a_declared_size_takes_no_memory_before_its_bytes_come() -> None:
    buffer = FrameBuffer(LIMIT)
    feed(buffer, struct.pack(">i", LIMIT) + b"x" * 100)
    assert buffer.frame() is None
    assert buffer.capacity <= 8 * 1024


def test_memory_stays_within_a_small_multiple_of_what_came() -> None:
    buffer, sent = FrameBuffer(LIMIT), 0
    body = framed(b"x" * 10_000_000)
    while sent < len(body):
        if buffer.stuck:
            assert buffer.capacity >= 1024 * 1024
            buffer.grow()
        sent += feed(buffer, body[sent : sent + 65_536])
        assert buffer.capacity <= max(1024 * 1024 + 64, 2 * sent + 8192)
    assert drain(buffer) == [b"x" * 10_000_000]
    assert buffer.capacity <= 8 * 1024


def test_an_idle_connection_gives_its_memory_back() -> None:
    buffer = FrameBuffer(LIMIT)
    stream = framed(b"x" * 500_000)
    while stream:
        stream = stream[feed(buffer, stream) :]
    assert len(drain(buffer)) == 1
    buffer.rest()
    assert buffer.capacity == 4 * 1024
