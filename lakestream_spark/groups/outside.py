"""Offsets committed for a group by somebody who is not in it, as a tool that moves it does.

    the group's slot has a live coordinator ─► OffsetCommit without a member, sent to it
                 else ─► the lease of the slot is taken for a moment, and the offsets are stored

What always holds: a group with members is left alone, because its coordinator refuses; nothing is
stored beside a coordinator that lives.
"""

import asyncio
import io
import struct
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from kio.index import load_payload_module, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i64

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Rejected, Unavailable
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.groups.limits import GroupLimits
from lakestream_spark.groups.messages import NO_MEMBER
from lakestream_spark.groups.slots import lease_name, slot_of
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.brokers import Node
from lakestream_spark.metadata.group_offsets import Commit, Committed
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.topics import Topic

_OFFSET_COMMIT: Final = 8
_VERSION: Final = 8
_LOOK_EVERY_S: Final = 0.2
_ANSWER_S: Final = 5.0
_SIZE: Final = struct.Struct(">i")
_AGAIN: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)


class OutsideCommits:
    """Commits for groups without members."""

    def __init__(
        self,
        metadata: Metadata,
        clock: Clock,
        *,
        session_s: float = GroupLimits().lease_session_ms / 1000,
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._session_s = session_s
        self._holder = f"outside:{uuid4()}"

    async def commit(self, group_id: str, topic: Topic, offsets: Mapping[int, int]) -> None:
        """Raises `Rejected` while the group has members, `Unavailable` when its coordinator is
        silent and does not go away."""
        until = self._clock.monotonic() + 3 * self._session_s
        while not await self._try_commit(group_id, topic, offsets):
            if self._clock.monotonic() >= until:
                raise Unavailable("the group's coordinator does not answer", group=group_id)
            await self._clock.sleep(_LOOK_EVERY_S)

    async def _try_commit(self, group_id: str, topic: Topic, offsets: Mapping[int, int]) -> bool:
        name = lease_name(slot_of(group_id))
        holder = (await self._metadata.leases.look([name])).get(name)
        node = None if holder is None else await self._node(holder)
        if node is not None:
            outcome = await _ask(node, group_id, topic, offsets)
            if outcome is not None and outcome not in _AGAIN:
                _check(outcome, group_id)
                return True
        lease = await self._metadata.leases.try_acquire(name, self._holder, self._session_s)
        if lease is None:
            return False
        await self._store(lease, group_id, topic, offsets)
        return True

    async def _node(self, holder: str) -> Node | None:
        for each in await self._metadata.brokers.list():
            if each.registration.holder == holder:
                return each.registration.node
        return None

    async def _store(
        self, lease: Lease, group_id: str, topic: Topic, offsets: Mapping[int, int]
    ) -> None:
        now_ms = self._clock.wall_ms()
        commits = [
            Commit(group_id, Committed(TopicPartition(topic.id, partition), offset), now_ms)
            for partition, offset in offsets.items()
        ]
        try:
            unknown = await self._metadata.group_offsets.commit(lease, slot_of(group_id), commits)
        finally:
            await self._metadata.leases.release(lease)
        if unknown:
            _check(ErrorCode.unknown_topic_or_partition, group_id)


def _check(outcome: ErrorCode, group_id: str) -> None:
    if outcome is ErrorCode.unknown_member_id:
        raise Rejected("the group has members: stop them, then move it", group=group_id)
    if outcome is not ErrorCode.none:
        raise Rejected(f"the coordinator refused the offsets: {outcome.name}", group=group_id)


async def _ask(
    node: Node, group_id: str, topic: Topic, offsets: Mapping[int, int]
) -> ErrorCode | None:
    """What the coordinator makes of it; None when it does not answer."""
    request = _request(group_id, topic, offsets)
    try:
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await asyncio.open_connection(node.host, node.port)
            try:
                writer.write(_SIZE.pack(len(request)) + request)
                (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
                frame = await reader.readexactly(size)
            finally:
                writer.close()
    except (OSError, EOFError, TimeoutError):
        return None
    schema: Any = load_response_schema(_OFFSET_COMMIT, _VERSION)
    _, start = entity_reader(schema.__header_schema__)(frame, 0)
    answer, _ = entity_reader(schema)(frame, start)
    codes = [each.error_code for named in answer.topics for each in named.partitions]
    return next((code for code in codes if code is not ErrorCode.none), ErrorCode.none)


def _request(group_id: str, topic: Topic, offsets: Mapping[int, int]) -> bytes:
    module: Any = load_payload_module(_OFFSET_COMMIT, _VERSION, EntityType.request)
    partitions = tuple(
        module.OffsetCommitRequestPartition(
            partition_index=i32(partition), committed_offset=i64(offset), committed_metadata=""
        )
        for partition, offset in offsets.items()
    )
    message = module.OffsetCommitRequest(
        group_id=group_id,
        member_id=NO_MEMBER,
        topics=(module.OffsetCommitRequestTopic(name=topic.name, partitions=partitions),),
    )
    header: Any = message.__header_schema__
    buffer = io.BytesIO()
    entity_writer(header)(
        buffer,
        header(
            request_api_key=message.__api_key__,
            request_api_version=i16(_VERSION),
            correlation_id=i32(1),
            client_id="lakestream",
        ),
    )
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()
