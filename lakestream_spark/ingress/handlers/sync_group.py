"""SyncGroup, v0–v5.

Behaviour: the leader hands in the assignments; each member gets its own when they are there.
Version notes: from v3 static members; from v5 the member says which protocol it means.
Not done: nothing.
"""

from datetime import timedelta
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.groups.messages import Caller, Sync, Synced
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.messages import Request

API_KEY: Final = 14
VERSIONS: Final = range(6)


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    message = request.message
    asked = Sync(
        caller=caller_of(message),
        protocol_type=getattr(message, "protocol_type", None),
        protocol_name=getattr(message, "protocol_name", None),
        assignments={each.member_id: each.assignment for each in message.assignments},
    )
    syncing = broker.coordinator.sync(message.group_id, asked)
    departed = Synced(error=ErrorCode.rebalance_in_progress)
    answer = await request.client.waits_for(syncing, departed)
    response: ResponsePayload = request.respond(
        "SyncGroupResponse",
        throttle_time=timedelta(0),
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
    return response


def caller_of(message: object) -> Caller:
    """Who sent a SyncGroup or Heartbeat."""
    return Caller(
        getattr(message, "member_id", ""),
        getattr(message, "group_instance_id", None),
        getattr(message, "generation_id", -1),
    )
