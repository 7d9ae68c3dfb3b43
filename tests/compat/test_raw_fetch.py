"""Fetch: the same requests to both clusters, and the same answers."""

import asyncio
from datetime import timedelta
from typing import Any, Final

import pytest

from tests.compat.clusters import Cluster
from tests.compat.comparison import Comparisons
from tests.compat.peer import NOBODY, Peer, RawTopic, filled, plain
from tests.support.batches import make_batch

COMPARED: Final = Comparisons()


@COMPARED.add()
async def fetch_in_every_version(peer: Peer) -> Any:
    topic = await filled(peer, 3, 2)
    return [
        plain((await peer.fetch(0, version=version, topic=topic)).responses)
        for version in range(4, 19)
    ]


@COMPARED.add()
async def fetch_inside_a_batch_gives_the_whole_batch(peer: Peer) -> Any:
    await filled(peer, 3, 3, 3)
    return [plain((await peer.fetch(offset)).responses) for offset in (1, 4, 8)]


@COMPARED.add()
async def fetch_at_the_end_waits_and_gives_nothing(peer: Peer) -> Any:
    await filled(peer, 3)
    loop = asyncio.get_running_loop()
    began = loop.time()
    answer = await peer.fetch(3)
    return loop.time() - began > 0.45, plain(answer.responses)


@COMPARED.add()
async def fetch_that_has_no_room_for_the_bytes_it_wants_does_not_wait(peer: Peer) -> Any:
    await filled(peer, 3, 3, 3)
    patient: dict[str, Any] = {"min_bytes": 1 << 20, "max_wait": timedelta(minutes=10)}
    return [
        plain((await peer.fetch(0, max_bytes=limit, **patient)).responses) for limit in (1, 100)
    ]


@COMPARED.add()
async def fetch_out_of_range(peer: Peer) -> Any:
    await filled(peer, 3)
    return [plain((await peer.fetch(offset)).responses) for offset in (4, -1, 2**62)]


@COMPARED.add()
async def fetch_from_an_unknown_topic(peer: Peer) -> Any:
    return plain((await peer.fetch(0)).responses)


@COMPARED.add()
async def fetch_from_an_unknown_partition(peer: Peer) -> Any:
    await peer.create()
    return plain((await peer.fetch(0, partition=7)).responses)


@COMPARED.add()
async def fetch_from_an_unknown_topic_id(peer: Peer) -> Any:
    return plain(await peer.fetch(0, version=16, topic=RawTopic("", NOBODY)))


@COMPARED.add()
async def fetch_with_a_tiny_limit_gives_the_first_batch(peer: Peer) -> Any:
    await filled(peer, 3, 3, 3)
    return [
        plain((await peer.fetch(0, max_bytes=1)).responses),
        plain((await peer.fetch(0, partition_max_bytes=1)).responses),
        plain((await peer.fetch(3, partition_max_bytes=1, version=4)).responses),
    ]


@COMPARED.add()
async def fetch_with_no_room_at_all(peer: Peer) -> Any:
    await filled(peer, 3)
    return plain((await peer.fetch(0, max_bytes=0, partition_max_bytes=0)).responses)


@COMPARED.add()
async def fetch_of_committed_records_only(peer: Peer) -> Any:
    await filled(peer, 3)
    return plain((await peer.fetch(0, isolation_level=1)).responses)


@COMPARED.add()
async def fetch_with_a_leader_epoch_from_the_future(peer: Peer) -> Any:
    await filled(peer, 3)
    return plain((await peer.fetch(0, current_leader_epoch=99)).responses)


@COMPARED.add()
async def fetch_in_a_session_that_does_not_exist(peer: Peer) -> Any:
    await filled(peer, 3)
    return plain(await peer.fetch(0, session_id=12345, session_epoch=1))


@COMPARED.add()
async def fetch_in_a_session_tells_only_news(peer: Peer) -> Any:
    await filled(peer, 3)
    opened = await peer.fetch(3, session_id=0, session_epoch=0)
    quiet = await peer.fetch(3, session_id=opened.session_id, session_epoch=1)
    await peer.produce(make_batch([b"new"]))
    news = await peer.fetch(3, session_id=opened.session_id, session_epoch=2)
    wrong = await peer.fetch(3, session_id=opened.session_id, session_epoch=9)
    return opened.session_id > 0, [
        plain(each, without=("session_id",)) for each in (opened, quiet, news, wrong)
    ]


@COMPARED.add()
async def fetch_in_a_closed_session(peer: Peer) -> Any:
    await filled(peer, 3)
    opened = await peer.fetch(0, session_id=0, session_epoch=0)
    closing = await peer.fetch(0, session_id=opened.session_id, session_epoch=-1)
    after = await peer.fetch(0, session_id=opened.session_id, session_epoch=1)
    return plain(closing), plain(after)


@COMPARED.add()
async def fetch_wakes_for_new_records(peer: Peer) -> Any:
    await filled(peer, 3)
    async with Peer(peer.cluster, peer.topic) as other:
        waiting = asyncio.create_task(peer.fetch(3, max_wait=timedelta(seconds=100)))
        await asyncio.sleep(0.2)
        await other.produce(make_batch([b"new"]))
        return plain((await asyncio.wait_for(waiting, 60)).responses)


@pytest.mark.parametrize("name", COMPARED.names)
async def test_both_answer_the_same(name: str, lakestream: Cluster, kafka: Cluster) -> None:
    await COMPARED.run(name, lakestream, kafka)
