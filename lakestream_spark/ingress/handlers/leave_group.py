"""LeaveGroup, v0–v5.

Behaviour: members leave at once and the others rebalance.
Version notes: up to v2 one member, whose error is that of the answer; from v3 many, static ones by
their instance id alone.
Not done: nothing.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.groups.messages import Caller, Left
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.messages import Request

API_KEY: Final = 13
VERSIONS: Final = range(6)

_FIRST_BATCHED: Final = 3


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    message = request.message
    if request.envelope.version < _FIRST_BATCHED:
        leaving = [Caller(message.member_id)]
    else:
        leaving = [Caller(each.member_id, each.group_instance_id) for each in message.members]
    left = broker.coordinator.leave(message.group_id, leaving)
    if isinstance(left, ErrorCode):
        return _response(request, left, ())
    single = request.envelope.version < _FIRST_BATCHED
    return _response(request, left[0].error if single else ErrorCode.none, left)


def _response(request: Request, code: ErrorCode, left: Sequence[Left]) -> ResponsePayload:
    batched = request.envelope.version >= _FIRST_BATCHED
    members = tuple(
        request.respond(
            "MemberResponse",
            member_id=each.caller.member_id,
            group_instance_id=each.caller.instance_id,
            error_code=each.error,
        )
        for each in (left if batched else ())
    )
    response: ResponsePayload = request.respond(
        "LeaveGroupResponse", throttle_time=timedelta(0), error_code=code, members=members
    )
    return response
