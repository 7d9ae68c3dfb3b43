"""The admin port: metrics, health, and the reasons for not being ready."""

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import pytest

from lakestream_spark.core import metrics
from lakestream_spark.core.errors import Unavailable
from lakestream_spark.ingress.admin import Health, State, admin_site
from lakestream_spark.ingress.listening import listen
from tests.support.clock import SimulatedClock


@asynccontextmanager
async def admin_port(health: Health):
    sock = listen("127.0.0.1", 0)
    async with admin_site(sock, health), aiohttp.ClientSession() as session:
        yield lambda path: session.get(f"http://127.0.0.1:{sock.getsockname()[1]}{path}")


async def reasons(get) -> list[str]:
    async with get("/readyz") as response:
        body = await response.json()
        assert response.status == (200 if body["ready"] else 503)
        return body["reasons"]


async def fine() -> None:
    pass


async def test_the_port_answers_while_the_broker_starts_serves_and_stops():
    health = Health(SimulatedClock())
    async with admin_port(health) as get:
        assert await reasons(get) == ["the broker is starting"]
        health.serving({"metadata store": fine}, list)
        assert await reasons(get) == []
        health.stopping()
        assert await reasons(get) == ["the broker is stopping"]
        health.state = State.FENCED
        health.stopping()
        assert await reasons(get) == ["the broker was fenced"]
        async with get("/healthz") as response:
            assert (response.status, await response.json()) == (200, {"alive": True})


async def test_a_store_that_fails_and_a_stale_loop_are_named(monkeypatch):
    monkeypatch.setattr("lakestream_spark.ingress.admin._PROBE_S", 0.05)

    async def away() -> None:
        raise Unavailable("it is away")

    async def silent() -> None:
        await asyncio.sleep(60)

    health = Health(SimulatedClock())
    health.serving({"metadata store": away, "WAL store": silent}, lambda: ["a loop is stale"])
    async with admin_port(health) as get:
        assert await reasons(get) == [
            "a loop is stale",
            "the metadata store fails: it is away",
            "the WAL store does not answer within 0 s",
        ]


async def test_the_stores_are_asked_at_most_once_a_second():
    clock, asked = SimulatedClock(), []

    async def probe() -> None:
        asked.append(clock.monotonic())

    health = Health(clock)
    health.serving({"metadata store": probe}, list)
    for _ in range(5):
        await health.problems()
    await clock.advance(1.0)
    await health.problems()
    assert asked == [0.0, 1.0]


async def test_the_page_shows_every_documented_metric():
    health = Health(SimulatedClock())
    health.serving({}, list)
    async with admin_port(health) as get, get("/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain")
        text = await response.text()
    assert [name for name in metrics.NAMES if f"# TYPE {name} " not in text] == []
    assert "lakestream_ready 1.0" in text
    assert "process_resident_memory_bytes" in text


@pytest.mark.parametrize("path", ["/", "/metrics/..%2f", "/nowhere"])
async def test_nothing_else_is_served(path):
    async with admin_port(Health(SimulatedClock())) as get, get(path) as response:
        assert response.status == 404
