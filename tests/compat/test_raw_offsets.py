"""ListOffsets, DeleteRecords and OffsetForLeaderEpoch: both clusters answer the same."""

from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from tests.compat.clusters import Cluster, differs, unique
from tests.compat.comparison import Comparisons
from tests.compat.peer import TIMEOUT, Peer, filled, plain, produced
from tests.support.batches import FIRST_TIMESTAMP_MS, make_batch

COMPARED: Final = Comparisons()


@COMPARED.add()
async def special_times_of_an_empty_partition(peer: Peer) -> Any:
    await peer.create()
    return [plain(await peer.list_offsets(time, version=11)) for time in (-1, -2, -3, -4, 5)]


@COMPARED.add()
async def special_times(peer: Peer) -> Any:
    await filled(peer, 3, 4)
    return [plain(await peer.list_offsets(time, version=11)) for time in (-1, -2, -3, -4, -5)]


@COMPARED.add()
async def a_special_time_that_does_not_exist(peer: Peer) -> Any:
    await filled(peer, 3)
    return [plain(await peer.list_offsets(time, version=7)) for time in (-7, -100)]


@COMPARED.add()
async def special_times_that_came_with_later_versions(peer: Peer) -> Any:
    await filled(peer, 3)
    return [
        plain(await peer.list_offsets(-3, version=6)),
        plain(await peer.list_offsets(-4, version=7)),
        plain(await peer.list_offsets(-5, version=8)),
    ]


@COMPARED.add()
async def offsets_by_time(peer: Peer) -> Any:
    await peer.create()
    times = (100, 200, 150, 300, 300)
    batch = make_batch([b"x"] * 5, timestamps=[FIRST_TIMESTAMP_MS + time for time in times])
    assert (await peer.produce(batch)).error_code is ErrorCode.none
    wanted = (0, 100, 101, 160, 200, 201, 300, 301)
    return [
        plain(await peer.list_offsets(FIRST_TIMESTAMP_MS + time, version=version))
        for version in (1, 5, 7)
        for time in wanted
    ] + [plain(await peer.list_offsets(-3))]


@COMPARED.add()
async def the_newest_time_when_several_batches_have_it(peer: Peer) -> Any:
    await peer.create()
    for times in ((100, 300), (300, 200), (250, 300)):
        batch = make_batch([b"x", b"y"], timestamps=[FIRST_TIMESTAMP_MS + time for time in times])
        assert (await peer.produce(batch)).error_code is ErrorCode.none
    return plain(await peer.list_offsets(-3))


@COMPARED.add()
async def list_offsets_of_unknown_places(peer: Peer) -> Any:
    await peer.create()
    return [
        plain(await peer.list_offsets(-1, topic=unique("nowhere")), without=("name",)),
        plain(await peer.list_offsets(-1, partition_index=4)),
        plain(await peer.list_offsets(-1, current_leader_epoch=99)),
    ]


async def delete_records(peer: Peer, offset: int, *, partition: int = 0) -> Any:
    api = peer.api(21, 2)
    answer = await api.ask(
        "DeleteRecordsRequest",
        timeout=TIMEOUT,
        topics=(
            api.part(
                "DeleteRecordsTopic",
                name=peer.topic,
                partitions=(
                    api.part("DeleteRecordsPartition", partition_index=partition, offset=offset),
                ),
            ),
        ),
    )
    return plain(answer.topics)


@COMPARED.add()
async def deleted_records_are_out_of_range(peer: Peer) -> Any:
    await filled(peer, 3, 3)
    deleted = await delete_records(peer, 4)
    return [
        deleted,
        plain((await peer.fetch(0)).responses),
        plain((await peer.fetch(4)).responses),
        plain(await peer.list_offsets(-2)),
        plain(await peer.list_offsets(-1)),
        plain(await peer.list_offsets(FIRST_TIMESTAMP_MS)),
        await produced(peer, make_batch([b"after"])),
    ]


@COMPARED.add()
async def records_deleted_up_to_the_end(peer: Peer) -> Any:
    await filled(peer, 3)
    return [
        await delete_records(peer, -1),
        plain((await peer.fetch(3)).responses),
        plain(await peer.list_offsets(-2)),
    ]


@COMPARED.add(differs("newest-time-of-deleted-records", lakestream=-1, kafka=2))
async def the_newest_time_when_all_records_are_deleted(peer: Peer) -> Any:
    await filled(peer, 3)
    await delete_records(peer, -1)
    return (await peer.list_offsets(-3)).offset


@COMPARED.add()
async def records_that_cannot_be_deleted(peer: Peer) -> Any:
    missing = await delete_records(peer, 1)
    await filled(peer, 3)
    return [
        missing,
        await delete_records(peer, 4),
        await delete_records(peer, -2),
        await delete_records(peer, 1, partition=5),
        await delete_records(peer, 2),
        await delete_records(peer, 1),
    ]


@COMPARED.add()
async def offset_for_leader_epoch(peer: Peer) -> Any:
    await filled(peer, 3)
    api = peer.api(23, 4)

    async def ask(epoch: int, current: int, topic: str = peer.topic, partition: int = 0) -> Any:
        answer = await api.ask(
            "OffsetForLeaderEpochRequest",
            replica_id=-1,
            topics=(
                api.part(
                    "OffsetForLeaderTopic",
                    topic=topic,
                    partitions=(
                        api.part(
                            "OffsetForLeaderPartition",
                            partition=partition,
                            current_leader_epoch=current,
                            leader_epoch=epoch,
                        ),
                    ),
                ),
            ),
        )
        return plain(answer.topics[0].partitions)

    return [
        await ask(0, -1),
        await ask(0, 0),
        await ask(5, -1),
        await ask(0, 5),
        await ask(-1, -1),
        await ask(0, -1, partition=3),
        await ask(0, -1, topic=f"{peer.topic}-not"),
    ]


@pytest.mark.parametrize("name", COMPARED.names)
async def test_both_answer_the_same(name: str, lakestream: Cluster, kafka: Cluster) -> None:
    await COMPARED.run(name, lakestream, kafka)
