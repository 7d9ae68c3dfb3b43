"""Offsets committed from outside of a group whose coordinator is gone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Unavailable
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.groups.outside import OutsideCommits
from lakestream_spark.groups.slots import lease_name, slot_of
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.brokers import Incarnation, Node, Registration
from tests.support.embedded import metadata_url
from tests.support.ports import free_port


@pytest.fixture
async def metadata(tmp_path: Path) -> AsyncIterator[Metadata]:
    opened = await open_metadata(metadata_url(tmp_path), clock=SystemClock())
    yield opened
    await opened.close()


async def killed_broker(metadata: Metadata) -> Registration:
    """It holds the slot of the group, and nobody listens at its port."""
    dead = Registration(Node(1, "127.0.0.1", free_port()), Incarnation("host", "life"))
    await metadata.brokers.join(dead)
    name = lease_name(slot_of("readers"))
    assert await metadata.leases.try_acquire(name, dead.holder, 60) is not None
    return dead


async def test_a_slot_of_a_broker_that_shows_no_life_is_taken_for_the_commit(metadata: Metadata):
    await killed_broker(metadata)
    topic = await metadata.topics.create("orders", partitions=2)
    commits = OutsideCommits(metadata, SystemClock(), session_s=0.5)
    await commits.commit("readers", topic, {0: 7, 1: 3})
    found = await metadata.group_offsets.fetch_all("readers")
    assert [(name, each.partition, each.offset) for name, each in found] == [
        ("orders", TopicPartition(topic.id, 0), 7),
        ("orders", TopicPartition(topic.id, 1), 3),
    ]
    name = lease_name(slot_of("readers"))
    assert await metadata.leases.look([name]) == {name: None}


async def test_a_broker_that_lives_and_does_not_answer_keeps_its_slot(metadata: Metadata):
    dead = await killed_broker(metadata)
    topic = await metadata.topics.create("orders")

    class Beating(SystemClock):
        """While the commit waits, the lease is renewed."""

        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            lease = await metadata.leases.try_acquire(
                lease_name(slot_of("readers")), dead.holder, 60
            )
            assert lease is not None
            await metadata.leases.renew(lease)

    with pytest.raises(Unavailable, match="does not answer"):
        await OutsideCommits(metadata, Beating(), session_s=0.5).commit("readers", topic, {0: 7})
