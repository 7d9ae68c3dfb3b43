"""ListGroups, v0–v5.

Behaviour: the groups that this broker coordinates; a client asks every broker.
Version notes: from v4 a filter by state, from v5 by type, both without regard to case.
Not done: other types than `classic`.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.messages import Request

API_KEY: Final = 16
VERSIONS: Final = range(6)

_TYPE: Final = "classic"


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    states = _wanted(getattr(request.message, "states_filter", ()))
    types = _wanted(getattr(request.message, "types_filter", ()))
    groups = [
        request.respond(
            "ListedGroup",
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state,
            group_type=_TYPE,
        )
        for group in broker.coordinator.list()
        if (not states or group.state.lower() in states) and (not types or _TYPE in types)
    ]
    response: ResponsePayload = request.respond(
        "ListGroupsResponse",
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        groups=tuple(groups),
    )
    return response


def _wanted(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}
