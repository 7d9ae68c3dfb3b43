"""JoinGroup, v0–v9.

Behaviour: the answer comes when the group has gathered, or at once when it is refused.
Version notes: v0 has no rebalance timeout of its own; from v4 a new member is told its id first
(MEMBER_ID_REQUIRED); from v5 static members; from v9 a leader that came back may be told to skip
the assignment. Before v7 a null protocol name is sent as an empty one.
Not done: nothing.
"""

from datetime import timedelta
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.groups.messages import Join, Joined, Protocol
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.messages import Request

API_KEY: Final = 11
VERSIONS: Final = range(10)

_FIRST_WITH_KNOWN_IDS: Final = 4
_FIRST_WITH_NULL_PROTOCOL: Final = 7
_FIRST_WITH_SKIPPING: Final = 9
_MS: Final = timedelta(milliseconds=1)


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    joining = broker.coordinator.join(request.message.group_id, _join(request))
    departed = Joined(error=ErrorCode.rebalance_in_progress, member_id=request.message.member_id)
    return _response(request, await request.client.waits_for(joining, departed))


def _join(request: Request) -> Join:
    message, version = request.message, request.envelope.version
    session_timeout_ms = message.session_timeout // _MS
    rebalance_timeout = getattr(message, "rebalance_timeout", None)
    return Join(
        member_id=message.member_id,
        instance_id=getattr(message, "group_instance_id", None),
        protocol_type=message.protocol_type,
        protocols=tuple(Protocol(each.name, each.metadata) for each in message.protocols),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=(
            session_timeout_ms if rebalance_timeout is None else rebalance_timeout // _MS
        ),
        client_id=request.client_id or "",
        client_host=f"/{request.client.host}",
        must_know_id=version >= _FIRST_WITH_KNOWN_IDS,
        can_skip_assignment=version >= _FIRST_WITH_SKIPPING,
    )


def _response(request: Request, answer: Joined) -> ResponsePayload:
    nullable = request.envelope.version >= _FIRST_WITH_NULL_PROTOCOL
    response: ResponsePayload = request.respond(
        "JoinGroupResponse",
        throttle_time=timedelta(0),
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name if nullable else answer.protocol_name or "",
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=tuple(
            request.respond(
                "JoinGroupResponseMember",
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in answer.members
        ),
    )
    return response
