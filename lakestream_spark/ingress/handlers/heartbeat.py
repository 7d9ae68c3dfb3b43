"""Heartbeat, v0–v4.

Behaviour: keeps the member's session; REBALANCE_IN_PROGRESS tells it to join again.
Version notes: from v3 static members.
Not done: nothing.
"""

from datetime import timedelta
from typing import Final

from kio.static.protocol import ResponsePayload

from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.handlers.sync_group import caller_of
from lakestream_spark.ingress.messages import Request

API_KEY: Final = 12
VERSIONS: Final = range(5)


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    message = request.message
    error = broker.coordinator.heartbeat(message.group_id, caller_of(message))
    response: ResponsePayload = request.respond(
        "HeartbeatResponse", throttle_time=timedelta(0), error_code=error
    )
    return response
