"""The listener: limits on connections, and a stop that answers what was read."""

import asyncio
import contextlib

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest

from lakestream_spark.app import running_broker
from lakestream_spark.core import metrics
from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.ingress.listening import listen
from lakestream_spark.metadata.brokers import Incarnation, Node, Registration
from lakestream_spark.settings import Settings
from tests.support.batches import make_batch
from tests.support.embedded import lake_settings
from tests.support.postgres import postgres_server, postgres_url
from tests.support.wire import Wire
from tests.unit.ingress.test_connection import produce

__all__ = ["postgres_server", "postgres_url"]

API_VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def with_broker(settings: Settings, **changes: object) -> Settings:
    return settings.model_copy(update={"broker": settings.broker.model_copy(update=changes)})


async def answers(wire: Wire) -> bool:
    await wire.send(API_VERSIONS)
    return (await wire.receive(18, 3))[0] == 1


def test_a_port_in_use_is_one_sentence():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Misconfigured) as refused:
            listen("127.0.0.1", port)
    text = str(refused.value)
    assert f"port {port} of 127.0.0.1 is in use" in text
    assert "\n" not in text


def test_an_address_that_is_not_ours_is_one_sentence():
    with pytest.raises(Misconfigured, match=r"cannot listen on port 0 of '192\.0\.2\.1'"):
        listen("192.0.2.1", 0)


async def test_one_connection_too_many_is_closed_and_the_others_stay(tmp_path):
    async with running_broker(with_broker(lake_settings(tmp_path), max_connections=2)) as broker:
        wires = [await Wire.connect(broker.address.port) for _ in range(2)]
        assert [await answers(wire) for wire in wires] == [True, True]
        refused = await Wire.connect(broker.address.port)
        assert await refused.closed_by_peer()
        assert [await answers(wire) for wire in wires] == [True, True]
        await wires[0].close()
        late = await _admitted(broker.address.port)
        for wire in (late, refused, wires[1]):
            await wire.close()


async def _admitted(port: int) -> Wire:
    """A connection that is served, once the broker has noticed that another one is gone."""
    async with asyncio.timeout(60):
        while True:
            wire = await Wire.connect(port)
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                assert await answers(wire)
                return wire
            await wire.close()
            await asyncio.sleep(0.02)


async def test_a_stop_answers_what_was_read_and_closes_idle_connections(tmp_path):
    async with running_broker(lake_settings(tmp_path, flush_ms=2000)) as broker:
        await broker.metadata.topics.create("orders")
        idle = await Wire.connect(broker.address.port)
        assert await answers(idle)
        busy = await Wire.connect(broker.address.port)
        for number in range(3):
            await busy.send(produce(make_batch([b"a"])), number)
        async with asyncio.timeout(60):
            while metrics.REQUESTS_IN_FLIGHT.of().now() < 3:
                await asyncio.sleep(0.01)
    offsets = []
    for number in range(3):
        correlation_id, body = await busy.receive(0, 9)
        assert correlation_id == number
        offsets.append(body.responses[0].partition_responses[0].base_offset)
    assert offsets == [0, 1, 2]
    assert await busy.closed_by_peer()
    assert await idle.closed_by_peer()
    for wire in (idle, busy):
        await wire.close()


async def test_a_stop_leaves_the_registry_and_fences_its_writers(tmp_path):
    settings = lake_settings(tmp_path)
    async with running_broker(settings) as first:
        assert len(await first.metadata.brokers.list()) == 1
    async with running_broker(with_broker(settings, id=2)) as second:
        rows = await second.metadata.brokers.list()
        assert [row.registration.node.node_id for row in rows] == [2]
        observed = [each.identity for each in await second.metadata.writers.observe()]
        assert [identity for identity in observed if identity.broker_id == 1] == []


async def test_two_brokers_see_each_other_and_agree_on_leaders(tmp_path):
    settings = with_broker(
        lake_settings(tmp_path), heartbeat_interval_ms=50, session_timeout_ms=10_000
    )
    async with (
        running_broker(settings) as first,
        running_broker(with_broker(settings, id=2)) as second,
    ):
        async with asyncio.timeout(60):
            while len(first.cluster.brokers()) < 2 or len(second.cluster.brokers()) < 2:
                await asyncio.sleep(0.02)
        assert first.cluster.brokers() == second.cluster.brokers()


async def test_a_newcomer_with_the_same_node_id_fences_the_old_broker(tmp_path):
    settings = with_broker(
        lake_settings(tmp_path), heartbeat_interval_ms=50, session_timeout_ms=10_000
    )
    async with running_broker(settings) as old:
        # As where the metadata store is a server, and no lock of one machine tells.
        (tmp_path / "broker-1.lock").unlink()
        async with running_broker(settings):
            done, _ = await asyncio.wait([old.upkeep], timeout=60)
        assert done
        error = old.upkeep.exception()
        assert error is not None
        assert "another process joined with this node id" in str(error)


@pytest.mark.postgres
async def test_brokers_of_two_hosts_cannot_share_a_folder(tmp_path, postgres_url):
    """The registry of one PostgreSQL, and a WAL below a folder that the other host cannot see."""
    settings = with_broker(
        lake_settings(tmp_path), heartbeat_interval_ms=50, session_timeout_ms=3000
    )
    shared = settings.model_copy(
        update={"metadata": settings.metadata.model_copy(update={"url": postgres_url})}
    )
    async with running_broker(shared) as first, running_broker(with_broker(shared, id=2)):
        elsewhere = Registration(Node(7, "other", 9092), Incarnation("another machine", "x"))
        await first.metadata.brokers.join(elsewhere)

        async def beat() -> None:
            while True:
                await first.metadata.brokers.beat(elsewhere)
                await asyncio.sleep(0.05)

        beating = asyncio.create_task(beat())
        with pytest.raises(Misconfigured, match="only brokers of one host can share"):
            async with running_broker(with_broker(shared, id=3)):
                pass
        beating.cancel()
        nodes = [row.registration.node.node_id for row in await first.metadata.brokers.list()]
        assert nodes == [1, 2, 7]


async def test_a_session_shorter_than_four_beats_is_refused(tmp_path):
    settings = with_broker(
        lake_settings(tmp_path), heartbeat_interval_ms=1000, session_timeout_ms=3000
    )
    with pytest.raises(Misconfigured, match="at least four times"):
        async with running_broker(settings):
            pass
