"""Every answer a cloud may give, from a server that gives just that one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretStr

from lakestream_spark.core.errors import (
    Corrupt,
    LakestreamError,
    Misconfigured,
    NotFound,
    Unavailable,
)
from lakestream_spark.objectstore.open import open_store
from lakestream_spark.objectstore.options import StoreOptions
from lakestream_spark.objectstore.store import ObjectStore


@asynccontextmanager
async def answering(*answers: str) -> AsyncIterator[ObjectStore]:
    """A store whose server gives these answers in turn, the last one for ever."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"content-length: 1\r\n" in head.lower():
            await reader.readexactly(1)
        status, _, body = (left.pop(0) if len(left) > 1 else left[0]).partition("\n")
        length = len(body)
        head_lines = f"HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n"
        stamp = "last-modified: Mon, 16 Nov 2026 00:00:00 GMT\r\netag: x\r\n\r\n"
        writer.write((head_lines + stamp + body).encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield open_store(
            "s3://bucket",
            StoreOptions(
                endpoint=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}",
                allow_http=True,
                access_key_id="id",
                secret_access_key=SecretStr("secret"),
            ),
        )
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("500 Internal Server Error", Unavailable),
        ("503 Slow Down\n<Error><Code>SlowDown</Code></Error>", Unavailable),
        ("429 Too Many Requests", Unavailable),
        ("408 Request Timeout", Unavailable),
        ("400 Bad Request\n<Error><Code>RequestTimeout</Code></Error>", Unavailable),
        ("400 Bad Request\n<Error><Code>IncompleteBody</Code></Error>", Unavailable),
        ("400 Bad Request\n<Error><Code>InvalidArgument</Code></Error>", Misconfigured),
        ("400 Bad Request\n<Error><Code>ExpiredToken</Code></Error>", Misconfigured),
        ("401 Unauthorized", Misconfigured),
        ("403 Forbidden\n<Error><Code>AccessDenied</Code></Error>", Misconfigured),
        ("301 Moved Permanently", Misconfigured),
        ("404 Not Found\n<Error><Code>NoSuchKey</Code></Error>", NotFound),
        ("404 Not Found\n<Error><Code>NoSuchBucket</Code></Error>", Misconfigured),
        ("416 Range Not Satisfiable", Corrupt),
    ],
)
async def test_an_answer_says_what_the_caller_does(answer: str, expected: type[LakestreamError]):
    async with answering(answer) as store:
        for call in (store.get("k"), store.get_ranges("k", [0], [1])):
            with pytest.raises(expected) as raised:
                await call
            assert type(raised.value) is expected
            assert "\n" not in str(raised.value)


@pytest.mark.parametrize("answer", ["409 Conflict", "412 Precondition Failed"])
async def test_a_conflict_that_left_nothing_is_to_be_tried_again(answer: str):
    missing = "404 Not Found\n<Error><Code>NoSuchKey</Code></Error>"
    async with answering(answer, missing) as store:
        with pytest.raises(Unavailable):
            await store.put("k", b"1")


@pytest.mark.parametrize("answer", ["409 Conflict", "412 Precondition Failed"])
async def test_a_conflict_with_our_own_bytes_is_success(answer: str):
    async with answering(answer, "200 OK\n1") as store:
        await store.put("k", b"1")


async def test_a_conflict_with_other_bytes_is_corrupt():
    async with answering("412 Precondition Failed", "200 OK\n2") as store:
        with pytest.raises(Corrupt):
            await store.put("k", b"1")


async def test_fewer_bytes_than_the_answer_promised_is_unavailable():
    async with answering("200 OK\ncontent") as store:
        assert await store.get("k") == b"content"
    async with answering("206 Partial Content\nabc") as store:
        with pytest.raises((Corrupt, Unavailable)):
            await store.get_ranges("k", [0], [5])
