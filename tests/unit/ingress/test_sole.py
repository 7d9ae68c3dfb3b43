"""The lock of a node id: one process holds it, and one that stops is waited for."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.ingress.sole import NodeLock
from tests.support.clock import SimulatedClock
from tests.support.registry import MemoryRegistry, registration

Lock = Callable[..., NodeLock]


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[Lock]:
    """Makes locks of one folder; all are released at the end."""
    made: list[NodeLock] = []

    def make(node_id: int = 1) -> NodeLock:
        made.append(NodeLock(f"sqlite:///{tmp_path}/metadata.db", node_id))
        return made[-1]

    yield make
    for each in made:
        each.release()


async def test_a_second_is_refused_with_the_address_of_the_first(lock: Lock) -> None:
    registry, clock = MemoryRegistry(), SimulatedClock()
    registry.join(registration(1))
    held = lock()
    await held.hold(registry, clock)
    with pytest.raises(Misconfigured, match="node id 1 runs on this data already, at host:9001"):
        await lock().hold(registry, clock)
    await lock(2).hold(registry, clock)


async def test_one_that_left_and_is_still_stopping_is_waited_for(lock: Lock) -> None:
    registry, clock = MemoryRegistry(), SimulatedClock()
    held = lock()
    await held.hold(registry, clock)
    waiting = asyncio.create_task(lock().hold(registry, clock))
    await clock.advance(5)
    assert not waiting.done()
    held.release()
    await clock.advance(1)
    await waiting


async def test_one_that_never_ends_is_not_waited_for_for_ever(lock: Lock) -> None:
    registry, clock = MemoryRegistry(), SimulatedClock()
    held = lock()
    await held.hold(registry, clock)
    waiting = asyncio.create_task(lock().hold(registry, clock))
    await clock.advance(60)
    with pytest.raises(Misconfigured, match="runs on this data already: use that one"):
        await waiting


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "postgresql://host/db"])
async def test_without_a_file_there_is_no_lock(url: str) -> None:
    for _ in range(2):
        await NodeLock(url, 1).hold(MemoryRegistry(), SimulatedClock())
