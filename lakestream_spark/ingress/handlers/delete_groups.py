"""DeleteGroups, v0–v2.

Behaviour: forgets groups without members, and their offsets (NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND).
Not done: nothing.
"""

from datetime import timedelta
from typing import Final

from kio.static.protocol import ResponsePayload

from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.messages import Request

API_KEY: Final = 42
VERSIONS: Final = range(3)


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    results = [
        request.respond(
            "DeletableGroupResult",
            group_id=group_id,
            error_code=await broker.coordinator.delete(group_id),
        )
        for group_id in request.message.groups_names
    ]
    response: ResponsePayload = request.respond(
        "DeleteGroupsResponse", throttle_time=timedelta(0), results=tuple(results)
    )
    return response
