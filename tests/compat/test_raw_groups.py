"""Groups: both clusters refuse and accept the same."""

import asyncio
from datetime import timedelta
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode

from tests.compat.clusters import Cluster
from tests.compat.comparison import Comparisons
from tests.compat.peer import Peer, plain

COMPARED: Final = Comparisons()


async def found(peer: Peer, *groups: str) -> None:
    """Ask for the coordinator first, as every client does."""
    for group in groups or (peer.topic,):
        while True:
            answer = await peer.api(10, 4).ask(
                "FindCoordinatorRequest", key_type=0, coordinator_keys=(group,)
            )
            if answer.coordinators[0].error_code is ErrorCode.none:
                break
            await asyncio.sleep(0.05)


async def commit(peer: Peer, group: str, offset: int, **how: Any) -> Any:
    api = peer.api(8, 8)
    values = {
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "partition_index": 0,
        "committed_metadata": "",
        **how,
    }
    answer = await api.ask(
        "OffsetCommitRequest",
        group_id=group,
        topics=(
            api.part(
                "OffsetCommitRequestTopic",
                name=how.get("topic", peer.topic),
                partitions=(
                    api.part(
                        "OffsetCommitRequestPartition",
                        committed_offset=offset,
                        committed_leader_epoch=-1,
                        **values,
                    ),
                ),
            ),
        ),
        **values,
    )
    return plain(answer.topics)


async def committed(peer: Peer, group: str, *partitions: int) -> Any:
    api = peer.api(9, 8)
    topics = (
        (api.part("OffsetFetchRequestTopics", name=peer.topic, partition_indexes=partitions),)
        if partitions
        else None
    )
    part = api.part("OffsetFetchRequestGroup", group_id=group, topics=topics)
    return plain((await api.ask("OffsetFetchRequest", groups=(part,), require_stable=False)).groups)


@COMPARED.add()
async def offsets_without_members(peer: Peer) -> Any:
    await found(peer)
    await peer.create(partitions=2)
    return [
        await committed(peer, peer.topic, 0),
        await commit(peer, peer.topic, 5, committed_metadata="note"),
        await committed(peer, peer.topic, 0, 1),
        await committed(peer, peer.topic),
        await commit(peer, peer.topic, -1),
        await commit(peer, peer.topic, 5, committed_metadata="x" * 5000),
        await commit(peer, peer.topic, 5, partition_index=7),
        await commit(peer, peer.topic, 5, topic=f"{peer.topic}-not"),
    ]


@COMPARED.add()
async def a_commit_of_a_stranger(peer: Peer) -> Any:
    await found(peer)
    await peer.create()
    return [
        await commit(peer, peer.topic, 5),
        await commit(peer, peer.topic, 5, generation_id_or_member_epoch=3, member_id="x"),
    ]


@COMPARED.add()
async def a_commit_of_a_member_to_a_group_that_does_not_exist(peer: Peer) -> Any:
    await peer.create()
    await found(peer)
    (topic,) = await commit(peer, peer.topic, 5, generation_id_or_member_epoch=3, member_id="x")
    return topic["partitions"][0]["error_code"]


@COMPARED.add()
async def joins_that_are_refused(peer: Peer) -> Any:
    await found(peer)
    api = peer.api(11, 5)

    async def join(**how: Any) -> Any:
        values = {
            "group_id": peer.topic,
            "session_timeout": timedelta(seconds=10),
            "rebalance_timeout": timedelta(seconds=10),
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": (api.part("JoinGroupRequestProtocol", name="range", metadata=b""),),
            **how,
        }
        answer = await api.ask("JoinGroupRequest", **values)
        return answer.error_code.name, bool(answer.member_id), answer.generation_id

    return [
        await join(group_id=""),
        await join(session_timeout=timedelta(milliseconds=100)),
        await join(session_timeout=timedelta(hours=1)),
        await join(member_id="stranger"),
        await join(protocols=()),
        await join(protocol_type=""),
        await join(),
    ]


@COMPARED.add()
async def heartbeats_and_leaves_of_strangers(peer: Peer) -> Any:
    await found(peer)
    return await as_a_stranger(peer, peer.topic)


async def as_a_stranger(peer: Peer, group: str) -> Any:
    """What a member is told that the group does not know."""
    heartbeat = await peer.api(12, 3).ask(
        "HeartbeatRequest",
        group_id=group,
        generation_id=1,
        member_id="x",
        group_instance_id=None,
    )
    leaving = peer.api(13, 3)
    left = await leaving.ask(
        "LeaveGroupRequest",
        group_id=group,
        members=(leaving.part("MemberIdentity", member_id="x", group_instance_id=None),),
    )
    sync = await peer.api(14, 3).ask(
        "SyncGroupRequest",
        group_id=group,
        generation_id=1,
        member_id="x",
        group_instance_id=None,
        assignments=(),
    )
    return plain(heartbeat), plain(left), plain(sync)


@COMPARED.add()
async def groups_that_do_not_exist(peer: Peer) -> Any:
    await found(peer)
    return await administered(peer, peer.topic)


@COMPARED.add()
async def the_group_without_a_name(peer: Peer) -> Any:
    """Only those APIs take it that did so before it was forbidden."""
    await peer.create()
    await found(peer, "")
    return [
        await as_a_stranger(peer, ""),
        await commit(peer, "", 5, generation_id_or_member_epoch=3, member_id="x"),
        await commit(peer, "", 5),
        await committed(peer, "", 0),
        await administered(peer, ""),
        await committed(peer, "", 0),
        await administered(peer, ""),
    ]


async def administered(peer: Peer, group: str) -> Any:
    """A group that is described, then told to forget an offset, then deleted."""
    describing, deleting, forgetting = peer.api(15, 5), peer.api(42, 2), peer.api(47, 0)
    described = await describing.ask(
        "DescribeGroupsRequest", groups=(group,), include_authorized_operations=False
    )
    forgotten = await forgetting.ask(
        "OffsetDeleteRequest",
        group_id=group,
        topics=(
            forgetting.part(
                "OffsetDeleteRequestTopic",
                name=peer.topic,
                partitions=(forgetting.part("OffsetDeleteRequestPartition", partition_index=0),),
            ),
        ),
    )
    deleted = await deleting.ask("DeleteGroupsRequest", groups_names=(group,))
    return plain(described), plain(forgotten), plain(deleted)


@COMPARED.add()
async def coordinators(peer: Peer) -> Any:
    return [
        plain(
            (
                await peer.api(10, 4).ask(
                    "FindCoordinatorRequest", key_type=kind, coordinator_keys=(peer.topic,)
                )
            ).coordinators
        )
        for kind in (0, 9)
    ]


@pytest.mark.parametrize("name", COMPARED.names)
async def test_both_answer_the_same(name: str, lakestream: Cluster, kafka: Cluster) -> None:
    await COMPARED.run(name, lakestream, kafka)
