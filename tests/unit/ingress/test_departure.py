"""Clients that close their side while a request waits: gone, or only done with sending."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import uvloop
from kio.schema.errors import ErrorCode

from lakestream_spark.app import RunningBroker
from lakestream_spark.core import metrics
from lakestream_spark.ingress import connection
from lakestream_spark.ingress.connection import Connection
from lakestream_spark.ingress.dispatch import begin
from lakestream_spark.ingress.handlers import find_coordinator, join_group, sync_group
from lakestream_spark.kafka.pieces import Pieces
from tests.support.asking import Asking
from tests.support.batches import make_batch
from tests.support.embedded import embedded_lake
from tests.support.raw_fetch import fetch_request
from tests.support.wire import Wire
from tests.unit.ingress.test_connection import API_VERSIONS, produce

LONG = timedelta(minutes=10)
GROUP = "readers"
Leave = Callable[[Wire], Awaitable[None]]

ways_to_leave = pytest.mark.parametrize("leave", [Wire.close, Wire.reset], ids=["close", "reset"])


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


def open_connections() -> int:
    return int(metrics.CONNECTIONS.of().now())


async def send_fetch(wire: Wire) -> None:
    """A fetch that waits for what does not come."""
    request = fetch_request(wire, "orders", min_bytes=1 << 20, max_wait=LONG)
    await wire.send(request, correlation_id=7)


class Member:
    """One member of the group on its own connection."""

    def __init__(self, wire: Wire, name: str = "") -> None:
        self.wire = wire
        self.id = name
        self.generation = -1

    @classmethod
    async def connect(cls, lake: RunningBroker) -> "Member":
        wire = await Wire.connect(lake.address.port)
        api = Asking(wire, find_coordinator.API_KEY, 4)
        await api.ask("FindCoordinatorRequest", key_type=0, coordinator_keys=(GROUP,))
        return cls(wire)

    async def send_join(self) -> None:
        # v3: a new member needs no id first.
        api = Asking(self.wire, join_group.API_KEY, 3)
        protocol = api.part("JoinGroupRequestProtocol", name="range", metadata=b"")
        request = api.part(
            "JoinGroupRequest",
            group_id=GROUP,
            session_timeout=timedelta(minutes=5),
            rebalance_timeout=LONG,
            member_id=self.id,
            protocol_type="consumer",
            protocols=(protocol,),
        )
        await self.wire.send(request)

    async def joined(self) -> Any:
        _, body = await self.wire.receive(join_group.API_KEY, 3)
        self.id, self.generation = body.member_id, body.generation_id
        return body

    async def send_sync(self) -> None:
        api = Asking(self.wire, sync_group.API_KEY, 3)
        request = api.part(
            "SyncGroupRequest",
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=None,
            assignments=(),
        )
        await self.wire.send(request)


async def waiting_member(lake: RunningBroker) -> tuple[Member, Member]:
    """A member of a first generation, and a newcomer that waits for it to join again."""
    first, second = await Member.connect(lake), await Member.connect(lake)
    await first.send_join()
    assert (await first.joined()).error_code is ErrorCode.none
    await second.send_join()
    await until(lambda: members(lake) == 2)
    return first, second


def members(lake: RunningBroker) -> int:
    return len(lake.groups.describe(GROUP).members)


@ways_to_leave
async def test_a_client_that_goes_while_its_fetch_waits_is_counted_out_at_once(
    lake: RunningBroker, leave: Leave
) -> None:
    await lake.metadata.topics.create("orders")
    wire = await Wire.connect(lake.address.port)
    await send_fetch(wire)
    await until(lambda: lake.tail.watched == 1)
    assert open_connections() == 1
    await leave(wire)
    await until(lambda: (open_connections(), lake.tail.watched) == (0, 0))


async def test_who_only_stops_sending_gets_every_answer(lake: RunningBroker) -> None:
    await lake.metadata.topics.create("orders")
    wire = await Wire.connect(lake.address.port)
    await wire.send(produce(make_batch([b"a"])), correlation_id=5)
    await send_fetch(wire)
    await wire.send(produce(make_batch([b"b"])), correlation_id=9)
    wire.end()
    correlation_id, body = await wire.receive(0, 9)
    assert (correlation_id, body.responses[0].partition_responses[0].base_offset) == (5, 0)
    correlation_id, body = await wire.receive(1, 11)
    assert (correlation_id, body.error_code) == (7, ErrorCode.none)
    correlation_id, body = await wire.receive(0, 9)
    assert (correlation_id, body.responses[0].partition_responses[0].base_offset) == (9, 1)
    assert await wire.closed_by_peer()
    await wire.close()


@ways_to_leave
async def test_a_newcomer_that_goes_while_it_waits_to_join_is_out_of_the_group(
    lake: RunningBroker, leave: Leave
) -> None:
    first, second = await waiting_member(lake)
    await leave(second.wire)
    await until(lambda: members(lake) == 1)
    await first.send_join()
    body = await first.joined()
    assert (body.error_code, len(body.members)) == (ErrorCode.none, 1)
    await first.wire.close()


@ways_to_leave
async def test_a_member_that_goes_while_it_waits_to_join_again_is_waited_for(
    lake: RunningBroker, leave: Leave
) -> None:
    first, second = await waiting_member(lake)
    third = await Member.connect(lake)
    await first.send_join()
    assert (await first.joined()).generation_id == (await second.joined()).generation_id
    await third.send_join()
    await until(lambda: members(lake) == 3)
    await second.send_join()
    await until(lambda: lake.groups.waiting == 2)
    await leave(second.wire)
    await until(lambda: lake.groups.waiting == 1)
    # Its join counts no more: the others wait until it comes back.
    await first.send_join()
    await until(lambda: lake.groups.waiting == 2)
    back = Member((await Member.connect(lake)).wire, second.id)
    await back.send_join()
    answers = [await each.joined() for each in (first, back, third)]
    assert {body.error_code for body in answers} == {ErrorCode.none}
    assert {body.generation_id for body in answers} == {3}
    for each in (first, back, third):
        await each.wire.close()


async def test_a_member_that_stops_sending_is_told_to_join_again(lake: RunningBroker) -> None:
    first, second = await waiting_member(lake)
    second.wire.end()
    assert (await second.joined()).error_code is ErrorCode.rebalance_in_progress
    assert await second.wire.closed_by_peer()
    for each in (first, second):
        await each.wire.close()


@ways_to_leave
async def test_a_member_that_goes_while_it_waits_for_its_assignment_frees_its_place(
    lake: RunningBroker, leave: Leave
) -> None:
    first, second = await waiting_member(lake)
    await first.send_join()
    await first.joined()
    await second.joined()
    await second.send_sync()
    await until(lambda: lake.groups.waiting == 1)
    await leave(second.wire)
    await until(lambda: (lake.groups.waiting, open_connections()) == (0, 1))
    await first.wire.close()


def test_a_client_that_is_gone_the_moment_its_answer_is_ready_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With the loop of a broker, which takes no bytes for a closed socket."""
    made: list[Connection] = []
    connection_made = Connection.connection_made

    async def run() -> None:
        ready = asyncio.Event()

        async def held(*given: Any) -> Any:
            answer = await begin(*given)

            async def late() -> Pieces | None:
                await ready.wait()
                return await answer

            return late()

        def remember(self: Connection, transport: asyncio.BaseTransport) -> None:
            made.append(self)
            connection_made(self, transport)

        with (
            patch.object(connection, "begin", held),
            patch.object(Connection, "connection_made", remember),
        ):
            async with embedded_lake(tmp_path) as lake:
                wire = await Wire.connect(lake.address.port)
                await wire.send(API_VERSIONS)
                await until(lambda: bool(made and made[0].requests_in_flight))
                # In one turn of the loop: the answer is on its way out when the socket closes.
                ready.set()
                made[0].abort()
                assert made[0].closed is not None
                await asyncio.wait([made[0].closed])
                await wire.close()

    with caplog.at_level(logging.ERROR), asyncio.Runner(loop_factory=uvloop.new_event_loop) as own:
        own.run(run())
    assert [record.message for record in caplog.records] == []
