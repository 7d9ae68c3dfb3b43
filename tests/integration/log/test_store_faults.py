"""A real S3 server that is slow, fails or is gone: producers wait, or get retriable errors."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from lakestream_spark.core.retry import Backoff
from lakestream_spark.kafka.batch import CheckedBatch
from lakestream_spark.objectstore.open import open_store
from lakestream_spark.objectstore.retrying import Retrying
from lakestream_spark.wal.receipt import Verdict
from lakestream_spark.wal.writer import FlushPolicy, WalWriter
from tests.support.batches import checked, make_batch
from tests.support.crowd import PROFILE, Crowd, open_writer
from tests.support.failing_server import answering_503
from tests.support.flaky_proxy import FlakyProxy
from tests.support.log import Log, open_log
from tests.support.s3 import NEEDS_S3, S3Server

pytestmark = list(NEEDS_S3)

POLICY = FlushPolicy(max_age_ms=10, answer_within_ms=120_000)
PATIENT = Backoff(total_s=120.0)
IMPATIENT = Backoff(first_s=0.02, cap_s=0.1, total_s=0.3)
AWAY_S = 2.0
MIB = 1024 * 1024


@pytest.fixture
async def proxy(s3_server: S3Server) -> AsyncIterator[FlakyProxy]:
    async with FlakyProxy(s3_server.host, s3_server.port) as proxy:
        yield proxy


def flaky_store(server: S3Server, proxy: FlakyProxy, backoff: Backoff) -> Retrying:
    options = server.options(port=proxy.port, request_timeout_s=5.0)
    return Retrying(open_store(server.new_url(), options), backoff=backoff)


async def go_away(
    how: str, server: S3Server, proxy: FlakyProxy, until: Callable[[], Awaitable[None]]
) -> None:
    """The store is of no use until something happened, then healthy again."""
    if how == "killed":
        server.kill()
        try:
            await until()
        finally:
            await asyncio.to_thread(server.start)
        return
    await proxy.refuse()
    if how == "answering 503":
        async with answering_503(proxy.port) as seen, asyncio.timeout(120):
            await until()
            while not any(line.startswith(b"PUT ") for line in seen):
                await asyncio.sleep(0.05)
    else:
        await until()
    await proxy.heal()


FAULTS = pytest.mark.parametrize("how", ["refusing", "answering 503", "killed"])


@FAULTS
async def test_producers_wait_for_a_store_that_is_away_for_seconds_and_lose_nothing(
    how: str, s3_server: S3Server, proxy: FlakyProxy, tmp_path: Path
):
    store = flaky_store(s3_server, proxy, PATIENT)
    async with open_log(f"sqlite:///{tmp_path}/metadata.db", {PROFILE: store}) as log:
        await log.create_topics("orders", "clicks", partitions=2)
        crowd = await Crowd.gather(log)
        async with open_writer(log, POLICY) as writer, crowd.at_work(writer):
            await crowd.progress(50)
            await go_away(how, s3_server, proxy, lambda: asyncio.sleep(AWAY_S))
            await crowd.progress(50)
        assert not crowd.errors
        await crowd.assert_sound()


@FAULTS
async def test_producers_get_retriable_errors_when_the_store_stays_away_and_lose_nothing(
    how: str, s3_server: S3Server, proxy: FlakyProxy, tmp_path: Path
):
    store = flaky_store(s3_server, proxy, IMPATIENT)
    async with open_log(f"sqlite:///{tmp_path}/metadata.db", {PROFILE: store}) as log:
        await log.create_topics("orders", "clicks", partitions=2)
        crowd = await Crowd.gather(log)
        async with open_writer(log, POLICY) as writer, crowd.at_work(writer):
            await crowd.progress(50)
            told = partial(crowd.until, lambda: crowd.errors.total() > 0)
            await go_away(how, s3_server, proxy, told)
            await crowd.progress(50)
        assert set(crowd.errors) == {"Unavailable"}
        await crowd.assert_sound()
        await log.assert_no_garbage()


async def test_memory_stays_bounded_while_callers_push_more_than_a_slow_store_takes(
    s3_server: S3Server, proxy: FlakyProxy, tmp_path: Path
):
    bound, callers, each = 8 * MIB, 20, 96
    policy = FlushPolicy(max_age_ms=10, max_bytes=MIB, max_inflight_bytes=bound)
    # One buffer for all: what grows is what the writer itself holds.
    batches = checked(make_batch([b"x" * 65_536]))
    store = flaky_store(s3_server, proxy, PATIENT)
    async with open_log(f"sqlite:///{tmp_path}/metadata.db", {PROFILE: store}) as log:
        await log.create_topics("orders", partitions=4)
        async with open_writer(log, policy) as writer:
            await asyncio.gather(*push(writer, log, batches, 1, 8))
            proxy.delay_s = 0.25
            gc.collect()
            process = psutil.Process()
            at_rest = process.memory_info().rss
            pushing = asyncio.gather(*push(writer, log, batches, callers, each))
            most, most_in_flight = at_rest, 0
            while not pushing.done():
                most = max(most, process.memory_info().rss)
                most_in_flight = max(most_in_flight, writer.inflight_bytes)
                await asyncio.sleep(0.01)
            verdicts = await pushing
        wanted = callers * each * len(batches[0].data)
        print(f"{wanted / MIB:.0f} MiB wanted, {most_in_flight / MIB:.1f} MiB at most in flight")
        print(f"the process grew by {(most - at_rest) / MIB:.1f} MiB")
        assert wanted > 14 * bound
        assert bound / 2 < most_in_flight <= bound
        # Each byte in flight is in a sealed segment, and for a moment in what is sent of it; the
        # rest is what the allocator does with it. Without a bound it would be all that is wanted.
        assert most - at_rest < wanted / 2
        assert set(verdicts) == {Verdict.ACCEPTED}
        proxy.delay_s = 0.0
        ends = await log.metadata.tables.ends(log.topics[0].id)
        assert sum(end.high_watermark for end in ends.values()) == 8 + callers * each


def push(
    writer: WalWriter, log: Log, batches: list[CheckedBatch], callers: int, each: int
) -> list[asyncio.Task[Verdict]]:
    """All at once: no caller waits for an answer before its next call."""

    async def call(number: int) -> Verdict:
        (answer,) = await writer.append(log.partitions[number % len(log.partitions)], batches)
        return answer.verdict

    return [asyncio.create_task(call(number)) for number in range(callers) for _ in range(each)]
