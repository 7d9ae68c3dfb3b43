"""The APIs of groups on the wire, at the versions that clients really send."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from lakestream_spark.app import RunningBroker
from lakestream_spark.groups import GroupLimits
from lakestream_spark.ingress.handlers import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from lakestream_spark.metadata.topics import Topic
from tests.support.asking import Asking
from tests.support.embedded import embedded_lake, lake_with_groups
from tests.support.group_driver import subscription
from tests.support.wire import Wire

GROUP = "g"
LIMITS = GroupLimits(min_session_timeout_ms=100, max_group_id_bytes=100)
NONE = ErrorCode.none


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[RunningBroker]:
    async with lake_with_groups(tmp_path, limits=LIMITS) as running:
        yield running


@pytest.fixture
async def topic(lake: RunningBroker) -> Topic:
    return await lake.metadata.topics.create("orders", partitions=3)


class Client:
    """A client that speaks one version of each API; parked requests have their own connection."""

    def __init__(self, lake: RunningBroker) -> None:
        self._port = lake.address.port
        self._wires: list[Wire] = []

    async def ask(self, api: Any, version: int, kind: str, /, **values: object) -> Any:
        wire = await Wire.connect(self._port)
        self._wires.append(wire)
        return await Asking(wire, api.API_KEY, version).ask(kind, **values)

    async def close(self) -> None:
        for wire in self._wires:
            await wire.close()

    async def find(self, version: int = 6, key: str = GROUP, key_type: int = 0) -> Any:
        keys = {"key": key, "coordinator_keys": (key,), "key_type": key_type}
        body = await self.ask(find_coordinator, version, "FindCoordinatorRequest", **keys)
        return body.coordinators[0] if version >= 4 else body

    async def join(self, version: int = 9, member_id: str = "", **changes: object) -> Any:
        asking = Asking(Wire.__new__(Wire), join_group.API_KEY, version)
        protocol = asking.part(
            "JoinGroupRequestProtocol", name="range", metadata=subscription("orders")
        )
        values: dict[str, object] = {
            "group_id": GROUP,
            "session_timeout": timedelta(seconds=10),
            "rebalance_timeout": timedelta(seconds=10),
            "member_id": member_id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": (protocol,),
            "reason": None,
        }
        return await self.ask(join_group, version, "JoinGroupRequest", **values | changes)

    async def sync(self, version: int, member: Any, assignment: bytes | None = None) -> Any:
        asking = Asking(Wire.__new__(Wire), sync_group.API_KEY, version)
        given = asking.part(
            "SyncGroupRequestAssignment", member_id=member.member_id, assignment=assignment or b""
        )
        return await self.ask(
            sync_group,
            version,
            "SyncGroupRequest",
            group_id=GROUP,
            generation_id=member.generation_id,
            member_id=member.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name="range",
            assignments=() if assignment is None else (given,),
        )

    async def stable(self) -> Any:
        """A group of one member."""
        required = await self.join()
        joined = await self.join(member_id=required.member_id)
        assert (await self.sync(5, joined, b"all")).assignment == b"all"
        return joined

    async def commit(
        self, topic: Topic | str | UUID, offsets: dict[int, int], version: int = 9, **changes: Any
    ) -> dict[int, ErrorCode]:
        asking = Asking(Wire.__new__(Wire), offset_commit.API_KEY, version)
        partitions = tuple(
            asking.part(
                "OffsetCommitRequestPartition",
                partition_index=index,
                committed_offset=offset,
                committed_leader_epoch=0,
                committed_metadata=changes.get("metadata", "note"),
            )
            for index, offset in offsets.items()
        )
        by = {"name": topic, "topic_id": topic}
        if isinstance(topic, Topic):
            by = {"name": topic.name, "topic_id": topic.id}
        named = asking.part("OffsetCommitRequestTopic", **by, partitions=partitions)
        body = await self.ask(
            offset_commit,
            version,
            "OffsetCommitRequest",
            group_id=changes.get("group_id", GROUP),
            generation_id_or_member_epoch=changes.get("generation", -1),
            member_id=changes.get("member_id", ""),
            group_instance_id=None,
            retention_time=changes.get("retention", timedelta(milliseconds=-1)),
            topics=(named,),
        )
        return {each.partition_index: each.error_code for each in body.topics[0].partitions}

    async def fetch(
        self, topics: dict[str | UUID, tuple[int, ...]] | None, version: int = 9
    ) -> tuple[ErrorCode, dict[tuple[Any, int], tuple[int, str, ErrorCode]]]:
        """The error of the group, and what came of each partition."""
        asking = Asking(Wire.__new__(Wire), offset_fetch.API_KEY, version)
        kind = "OffsetFetchRequestTopics" if version >= 8 else "OffsetFetchRequestTopic"
        named = topics and tuple(
            asking.part(kind, name=name, topic_id=name, partition_indexes=indexes)
            for name, indexes in topics.items()
        )
        values: dict[str, Any] = {"group_id": GROUP, "topics": named, "require_stable": True}
        if version >= 8:
            own = asking.part("OffsetFetchRequestGroup", **values)
            values = {"groups": (own,), "require_stable": True}
        body = await self.ask(offset_fetch, version, "OffsetFetchRequest", **values)
        answer = body.groups[0] if version >= 8 else body
        found = {
            (getattr(each, "name", None) or each.topic_id, place.partition_index): (
                place.committed_offset,
                place.metadata,
                place.error_code,
            )
            for each in answer.topics
            for place in each.partitions
        }
        return getattr(answer, "error_code", NONE), found


@pytest.fixture
async def client(lake: RunningBroker) -> AsyncIterator[Client]:
    made = Client(lake)
    assert (await made.find()).error_code is NONE
    yield made
    await made.close()


def every(api: Any) -> Any:
    return pytest.mark.parametrize("version", api.VERSIONS)


class TestFindCoordinator:
    @every(find_coordinator)
    async def test_a_group_is_coordinated_by_the_broker_that_took_it(
        self, lake: RunningBroker, client: Client, version: int
    ) -> None:
        found = await client.find(version, "some group")
        address = lake.address
        assert (found.error_code, found.node_id, found.host, found.port) == (
            *(NONE, address.node_id, address.host),
            address.port,
        )

    @pytest.mark.parametrize(
        ("version", "code"),
        [
            (2, ErrorCode.transactional_id_authorization_failed),
            (6, ErrorCode.unsupported_version),
        ],
    )
    async def test_a_transaction_is_refused_with_a_sentence(
        self, client: Client, version: int, code: ErrorCode
    ) -> None:
        found = await client.find(version, "t", key_type=1)
        assert found.error_code is code
        assert "transactions are not offered" in found.error_message

    async def test_other_kinds_are_refused(self, client: Client) -> None:
        assert (await client.find(6, "s", key_type=2)).error_code is ErrorCode.invalid_request

    async def test_without_a_coordinator_clients_are_told_to_ask_again(
        self, tmp_path: Path
    ) -> None:
        async with embedded_lake(tmp_path / "plain") as plain:
            made = Client(plain)
            found = await made.find()
            await made.close()
        assert found.error_code in (NONE, ErrorCode.coordinator_not_available)


class TestMembership:
    @every(join_group)
    async def test_a_member_joins_at_every_version(self, client: Client, version: int) -> None:
        joined = await client.join(version)
        if version >= 4:
            assert joined.error_code is ErrorCode.member_id_required
            joined = await client.join(version, joined.member_id)
        assert (joined.error_code, joined.generation_id) == (NONE, 1)
        assert (joined.leader, joined.protocol_name) == (joined.member_id, "range")
        assert [each.member_id for each in joined.members] == [joined.member_id]
        assert joined.member_id.startswith("wire-")

    @pytest.mark.parametrize("version", [0, 5, 9])
    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"group_id": ""}, ErrorCode.invalid_group_id),
            ({"group_id": "x" * 101}, ErrorCode.invalid_group_id),
            ({"group_id": "nul\0"}, ErrorCode.invalid_group_id),
            ({"session_timeout": timedelta(milliseconds=99)}, ErrorCode.invalid_session_timeout),
            ({"session_timeout": timedelta(hours=1)}, ErrorCode.invalid_session_timeout),
            ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
            ({"protocols": ()}, ErrorCode.inconsistent_group_protocol),
        ],
    )
    async def test_joins_that_are_refused(
        self, client: Client, version: int, changes: dict[str, Any], code: ErrorCode
    ) -> None:
        if changes.get("group_id"):
            await client.find(key=changes["group_id"])
        assert (await client.join(version, **changes)).error_code is code

    @every(sync_group)
    async def test_the_leader_gets_its_assignment(self, client: Client, version: int) -> None:
        required = await client.join()
        joined = await client.join(member_id=required.member_id)
        synced = await client.sync(version, joined, b"mine")
        assert (synced.error_code, synced.assignment) == (NONE, b"mine")

    @every(heartbeat)
    async def test_heartbeats_tell_what_to_do(self, client: Client, version: int) -> None:
        member = await client.stable()

        async def beat(member_id: str, generation: int) -> ErrorCode:
            body = await client.ask(
                heartbeat,
                version,
                "HeartbeatRequest",
                group_id=GROUP,
                generation_id=generation,
                member_id=member_id,
                group_instance_id=None,
            )
            return ErrorCode(body.error_code)

        assert await beat(member.member_id, 1) is NONE
        assert await beat(member.member_id, 2) is ErrorCode.illegal_generation
        assert await beat("stranger", 1) is ErrorCode.unknown_member_id
        waiting = asyncio.create_task(client.join(3))
        async with asyncio.timeout(60):  # until the other has come, the group is stable
            while (code := await beat(member.member_id, 1)) is NONE:
                await asyncio.sleep(0.01)
        assert code is ErrorCode.rebalance_in_progress
        await client.join(member_id=member.member_id)
        assert (await waiting).generation_id == 2

    @every(leave_group)
    async def test_members_leave_at_every_version(self, client: Client, version: int) -> None:
        member = await client.stable()

        async def leave(member_id: str) -> ErrorCode:
            asking = Asking(Wire.__new__(Wire), leave_group.API_KEY, version)
            values: dict[str, Any] = {"group_id": GROUP, "member_id": member_id}
            if version >= 3:
                one = asking.part("MemberIdentity", member_id=member_id, group_instance_id=None)
                values["members"] = (one,)
            body = await client.ask(leave_group, version, "LeaveGroupRequest", **values)
            if version < 3:
                return ErrorCode(body.error_code)
            assert body.error_code is NONE
            return ErrorCode(body.members[0].error_code)

        assert await leave("stranger") is ErrorCode.unknown_member_id
        assert await leave(member.member_id) is NONE
        assert await leave(member.member_id) is ErrorCode.unknown_member_id

    async def test_a_silent_member_is_out_after_its_session_time(self, client: Client) -> None:
        joined = await client.join(3, session_timeout=timedelta(milliseconds=100))
        await client.sync(3, joined, b"all")
        values = {"groups": (GROUP,), "include_authorized_operations": False}
        async with asyncio.timeout(60):
            state = ""
            while state != "Empty":
                await asyncio.sleep(0.05)
                found = await client.ask(describe_groups, 6, "DescribeGroupsRequest", **values)
                state = found.groups[0].group_state


class TestOffsets:
    @every(offset_commit)
    async def test_offsets_are_committed_at_every_version(
        self, client: Client, topic: Topic, version: int
    ) -> None:
        assert await client.commit(topic, {0: 5, 2: 7}, version) == {0: NONE, 2: NONE}
        _, found = await client.fetch({"orders": (0, 1, 2)})
        assert found == {
            ("orders", 0): (5, "note", NONE),
            ("orders", 1): (-1, "", NONE),
            ("orders", 2): (7, "note", NONE),
        }

    @every(offset_fetch)
    async def test_offsets_are_fetched_at_every_version(
        self, client: Client, topic: Topic, version: int
    ) -> None:
        await client.commit(topic, {0: 5, 2: 7})
        name = topic.id if version >= 10 else "orders"
        error, found = await client.fetch({name: (0, 1)}, version)
        assert error is NONE
        assert found == {(name, 0): (5, "note", NONE), (name, 1): (-1, "", NONE)}
        if version >= 2:
            _, found = await client.fetch(None, version)
            assert found == {(name, 0): (5, "note", NONE), (name, 2): (7, "note", NONE)}

    async def test_a_bad_partition_is_refused_alone(self, client: Client, topic: Topic) -> None:
        unknown = ErrorCode.unknown_topic_or_partition
        assert await client.commit(topic, {0: 1, 3: 1, -1: 1}) == {0: NONE, 3: unknown, -1: unknown}
        assert await client.commit("nowhere", {0: 1}) == {0: unknown}
        strange = UUID(int=7)
        assert await client.commit(strange, {0: 1}, 10) == {0: ErrorCode.unknown_topic_id}
        _, found = await client.fetch({strange: (0,)}, 10)
        assert found == {(strange, 0): (-1, "", ErrorCode.unknown_topic_id)}
        assert (await client.fetch({"nowhere": (0,)}))[1] == {("nowhere", 0): (-1, "", NONE)}

    async def test_a_note_that_is_too_long_is_refused(self, client: Client, topic: Topic) -> None:
        assert await client.commit(topic, {0: 1}, metadata="x" * 4096) == {0: NONE}
        too_large = ErrorCode.offset_metadata_too_large
        assert await client.commit(topic, {0: 2}, metadata="x" * 4097) == {0: too_large}
        assert await client.commit(topic, {0: 3}, metadata=None) == {0: NONE}

    async def test_a_topic_that_is_made_again_starts_without_offsets(
        self, lake: RunningBroker, client: Client, topic: Topic
    ) -> None:
        await client.commit(topic, {0: 5})
        await lake.metadata.topics.delete(topic.id)
        again = await lake.metadata.topics.create("orders", partitions=3)
        assert (await client.fetch({again.id: (0,)}, 10))[1] == {(again.id, 0): (-1, "", NONE)}
        assert (await client.fetch(None))[1] == {}

    @pytest.mark.parametrize("version", [5, 9])
    @pytest.mark.parametrize(
        ("who", "code"),
        [
            (lambda member: {"member_id": member, "generation": 1}, NONE),
            (lambda member: {"member_id": member, "generation": 2}, ErrorCode.illegal_generation),
            (lambda member: {"member_id": "x", "generation": 1}, ErrorCode.unknown_member_id),
            (lambda member: {}, ErrorCode.unknown_member_id),
        ],
    )
    async def test_only_members_commit_while_there_are_any(
        self,
        client: Client,
        topic: Topic,
        version: int,
        who: Callable[[str], dict[str, Any]],
        code: ErrorCode,
    ) -> None:
        member = await client.stable()
        assert await client.commit(topic, {0: 1}, version, **who(member.member_id)) == {0: code}

    async def test_a_member_of_a_forgotten_group_is_told_to_join_again(
        self, client: Client, topic: Topic
    ) -> None:
        refused = await client.commit(topic, {0: 1}, member_id="m", generation=4)
        assert refused == {0: ErrorCode.illegal_generation}

    async def test_offsets_are_deleted_unless_a_member_reads_the_topic(
        self, lake: RunningBroker, client: Client, topic: Topic
    ) -> None:
        other = await lake.metadata.topics.create("other")

        async def delete(name: str, index: int) -> ErrorCode:
            asking = Asking(Wire.__new__(Wire), offset_delete.API_KEY, 0)
            one = asking.part("OffsetDeleteRequestPartition", partition_index=index)
            named = asking.part("OffsetDeleteRequestTopic", name=name, partitions=(one,))
            body = await client.ask(
                offset_delete, 0, "OffsetDeleteRequest", group_id=GROUP, topics=(named,)
            )
            if body.error_code is not NONE:
                return ErrorCode(body.error_code)
            return ErrorCode(body.topics[0].partitions[0].error_code)

        assert await delete("orders", 0) is ErrorCode.group_id_not_found
        await client.commit(topic, {0: 1})
        await client.commit(other, {0: 1})
        await client.stable()
        assert await delete("orders", 0) is ErrorCode.group_subscribed_to_topic
        assert await delete("other", 0) is NONE
        assert await delete("other", 9) is ErrorCode.unknown_topic_or_partition
        assert await delete("nowhere", 0) is ErrorCode.unknown_topic_or_partition
        assert list((await client.fetch(None))[1]) == [("orders", 0)]


class TestAdministration:
    @every(describe_groups)
    async def test_groups_are_described_at_every_version(
        self, client: Client, version: int
    ) -> None:
        member = await client.stable()
        await client.find(key="nobody")
        body = await client.ask(
            describe_groups,
            version,
            "DescribeGroupsRequest",
            groups=(GROUP, "nobody"),
            include_authorized_operations=False,
        )
        stable, missing = body.groups
        assert (stable.group_state, stable.protocol_type, stable.protocol_data) == (
            *("Stable", "consumer"),
            "range",
        )
        (shown,) = stable.members
        assert (shown.member_id, shown.client_id, shown.client_host) == (
            *(member.member_id, "wire"),
            "/127.0.0.1",
        )
        assert shown.member_metadata == subscription("orders")
        assert shown.member_assignment == b"all"
        expected = ErrorCode.group_id_not_found if version >= 6 else NONE
        assert (missing.error_code, missing.group_state) == (expected, "Dead")

    @every(list_groups)
    async def test_groups_are_listed_at_every_version(
        self, client: Client, topic: Topic, version: int
    ) -> None:
        await client.stable()

        async def listed(states: tuple[str, ...], types: tuple[str, ...]) -> list[str]:
            body = await client.ask(
                list_groups,
                version,
                "ListGroupsRequest",
                states_filter=states,
                types_filter=types,
            )
            return [each.group_id for each in body.groups]

        assert await listed((), ()) == [GROUP]
        if version >= 4:
            assert await listed(("stable", "Dead"), ()) == [GROUP]
            assert await listed(("Empty",), ()) == []
        if version >= 5:
            assert await listed((), ("Classic",)) == [GROUP]
            assert await listed((), ("consumer",)) == []

    @every(delete_groups)
    async def test_only_groups_without_members_are_deleted(
        self, client: Client, topic: Topic, version: int
    ) -> None:
        async def delete() -> ErrorCode:
            body = await client.ask(
                delete_groups, version, "DeleteGroupsRequest", groups_names=(GROUP,)
            )
            return ErrorCode(body.results[0].error_code)

        assert await delete() is ErrorCode.group_id_not_found
        member = await client.stable()
        await client.commit(topic, {0: 1}, member_id=member.member_id, generation=1)
        assert await delete() is ErrorCode.non_empty_group
        one = {"group_id": GROUP, "member_id": member.member_id}
        await client.ask(leave_group, 1, "LeaveGroupRequest", **one)
        assert await delete() is NONE
        assert (await client.fetch(None))[1] == {}
        assert await delete() is ErrorCode.group_id_not_found
