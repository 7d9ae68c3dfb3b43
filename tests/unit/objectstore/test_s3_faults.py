"""What a real S3 server and a broken network do to a store."""

import asyncio
import os

import pytest
from pydantic import SecretStr

from lakestream_spark.core.errors import Misconfigured, NotFound, Unavailable
from lakestream_spark.core.retry import Backoff
from lakestream_spark.objectstore.open import open_store
from lakestream_spark.objectstore.retrying import Retrying
from tests.support.flaky_proxy import FlakyProxy
from tests.support.s3 import BUCKET, NEEDS_S3, S3Server

pytestmark = list(NEEDS_S3)

DATA = os.urandom(1_000_000)
MORE_THAN_OBSTORE_RETRIES = 6


async def test_a_put_whose_replies_are_lost_succeeds_when_repeated(s3_server: S3Server):
    async with FlakyProxy(s3_server.host, s3_server.port) as proxy:
        url = s3_server.new_url()
        direct = open_store(url, s3_server.options())
        flaky = open_store(url, s3_server.options(port=proxy.port))
        proxy.lose_replies(MORE_THAN_OBSTORE_RETRIES)
        with pytest.raises(Unavailable):
            await flaky.put("k", DATA)
        assert await direct.get("k") == DATA  # it did happen, although nobody was told
        await Retrying(flaky).put("k", DATA)
        assert proxy.replies_lost == MORE_THAN_OBSTORE_RETRIES
        assert await direct.get("k") == DATA


async def test_an_upload_that_is_cut_in_the_middle_is_not_visible(s3_server: S3Server):
    async with FlakyProxy(s3_server.host, s3_server.port) as proxy:
        url = s3_server.new_url()
        direct = open_store(url, s3_server.options())
        flaky = open_store(url, s3_server.options(port=proxy.port))
        proxy.cut_uploads(after_bytes=len(DATA) // 2, times=MORE_THAN_OBSTORE_RETRIES)
        with pytest.raises(Unavailable):
            await flaky.put("k", DATA)
        assert proxy.uploads_cut >= 1
        with pytest.raises(NotFound):
            await direct.head("k")
        assert [info async for info in direct.list("")] == []
        await Retrying(flaky).put("k", DATA)
        assert await direct.get("k") == DATA


async def test_a_store_that_is_gone_for_two_seconds_is_waited_for(s3_server: S3Server):
    async with FlakyProxy(s3_server.host, s3_server.port) as proxy:
        store = open_store(s3_server.new_url(), s3_server.options(port=proxy.port))
        await store.put("before", b"1")
        await proxy.refuse()
        with pytest.raises(Unavailable, match="no connection"):
            await store.get("before")
        retrying = Retrying(store)
        calls = [
            asyncio.create_task(call)
            for call in (
                retrying.put("after", DATA),
                retrying.get("before"),
                retrying.head("before"),
            )
        ]
        await asyncio.sleep(2)
        assert not any(call.done() for call in calls)
        await proxy.heal()
        await asyncio.wait_for(asyncio.gather(*calls), timeout=120)
        assert await store.get("after") == DATA


async def test_a_server_that_crashes_and_comes_back_has_what_it_acknowledged(s3_server: S3Server):
    store = open_store(s3_server.new_url(), s3_server.options())
    retrying = Retrying(store)
    await retrying.put("before", DATA)
    try:
        s3_server.kill()
        with pytest.raises(Unavailable):
            await store.put("down", b"1")
        waiting = asyncio.create_task(retrying.put("down", b"1"))
        await asyncio.sleep(0.5)
    finally:
        s3_server.start()
    await waiting
    assert await store.get("before") == DATA
    assert await store.get("down") == b"1"


async def test_a_server_that_does_not_answer_is_given_up_in_time(s3_server: S3Server):
    async with FlakyProxy(s3_server.host, s3_server.port) as proxy:
        options = s3_server.options(port=proxy.port, request_timeout_s=0.3)
        store = open_store(s3_server.new_url(), options)
        proxy.delay_s = 600
        with pytest.raises(Unavailable, match="no answer in time"):
            async with asyncio.timeout(60):
                await Retrying(store, backoff=Backoff(total_s=1)).put("k", b"1")


async def test_wrong_credentials_are_a_matter_of_settings(s3_server: S3Server):
    wrong_secret = SecretStr("wrong-secret-value")
    options = s3_server.options().model_copy(update={"secret_access_key": wrong_secret})
    store = open_store(s3_server.new_url(), options)
    for call in (store.put("k", b"1"), store.get("k"), store.delete(["k"]), anext(store.list(""))):
        with pytest.raises(Misconfigured, match="refuses these credentials") as raised:
            await call
        assert "wrong-secret-value" not in str(raised.value)


async def test_an_unknown_key_id_is_a_matter_of_settings(s3_server: S3Server):
    options = s3_server.options().model_copy(update={"access_key_id": "nobody"})
    store = open_store(s3_server.new_url(), options)
    for call in (store.put("k", b"1"), store.get("k"), anext(store.list(""))):
        with pytest.raises(Misconfigured):
            await call


async def test_a_missing_bucket_is_a_matter_of_settings_and_not_a_missing_object(
    s3_server: S3Server,
):
    store = open_store(f"s3://not-{BUCKET}", s3_server.options())
    for call in (
        store.put("k", b"1"),
        store.get("k"),
        store.get_ranges("k", [0], [1]),
        store.delete(["k"]),
        anext(store.list("")),
    ):
        with pytest.raises(Misconfigured, match="does not exist"):
            await call


async def test_server_side_encryption_reaches_the_server(s3_server: S3Server):
    async with FlakyProxy(s3_server.host, s3_server.port) as proxy:
        options = s3_server.options(port=proxy.port).model_copy(
            update={"sse": "aws:kms", "sse_kms_key_id": "key-7"}
        )
        await open_store(s3_server.new_url(), options).put("k", b"1")
        assert b"x-amz-server-side-encryption: aws:kms\r\n" in proxy.last_request
        assert b"x-amz-server-side-encryption-aws-kms-key-id: key-7\r\n" in proxy.last_request
