"""Registrations of WAL writers, their epochs and their fences."""

import asyncio

import pytest

from lakestream_spark.core.errors import Fenced
from lakestream_spark.core.ids import BrokerId
from tests.support.metadata import header, stored


async def test_no_two_registrations_share_an_epoch(metadata):
    registering = [
        metadata.writers.register(BrokerId(broker), profile)
        for broker in (1, 2, 3)
        for profile in ("cost", "latency")
    ]
    epochs = [identity.broker_epoch for identity in await asyncio.gather(*registering)]
    assert sorted(epochs) == [1, 2, 3, 4, 5, 6]


async def test_profiles_of_one_broker_do_not_fence_each_other(metadata, writer):
    await metadata.writers.register(writer.broker_id, "latency")
    await metadata.writers.beat(writer)


async def test_beats_and_commits_are_observed(metadata, writer, partition):
    (before,) = await metadata.writers.observe()
    assert before.identity == writer
    await metadata.writers.beat(writer)
    (beaten,) = await metadata.writers.observe()
    await metadata.sequencer.commit(stored(writer, 3, (partition, [header()])))
    (committed,) = await metadata.writers.observe()
    assert before.beat < beaten.beat < committed.beat
    assert committed.last_n == 3


async def test_a_fenced_writer_is_not_observed_and_cannot_beat(metadata, writer):
    await metadata.writers.fence(writer)
    await metadata.writers.fence(writer)
    assert await metadata.writers.observe() == []
    with pytest.raises(Fenced):
        await metadata.writers.beat(writer)


async def test_the_last_number_of_every_epoch_is_kept(metadata, writer, partition):
    await metadata.sequencer.commit(stored(writer, 7, (partition, [header()])))
    second = await metadata.writers.register(writer.broker_id, writer.profile)
    await metadata.writers.fence(second)
    third = await metadata.writers.register(writer.broker_id, writer.profile)
    await metadata.sequencer.commit(stored(third, 2, (partition, [header()])))
    known = await metadata.writers.epochs()
    assert known.newest == third.broker_epoch == 3
    assert known.last_n == {1: 7, 2: 0, 3: 2}


async def test_fencing_an_old_epoch_leaves_the_new_one_alone(metadata, writer):
    newer = await metadata.writers.register(writer.broker_id, writer.profile)
    await metadata.writers.fence(writer)
    await metadata.writers.beat(newer)


async def test_an_empty_store_knows_no_epoch(metadata):
    known = await metadata.writers.epochs()
    assert (known.newest, known.last_n) == (0, {})
