"""DescribeGroups, v0–v6.

Behaviour: state, protocol and members of groups; metadata and assignments only while it is stable.
Version notes: a group that does not exist is Dead, and from v6 also GROUP_ID_NOT_FOUND.
Not done: authorised operations (never asked for until there is authorisation).
"""

from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.groups.messages import GroupDescription
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.messages import Request

API_KEY: Final = 15
VERSIONS: Final = range(7)

_FIRST_WITH_NOT_FOUND: Final = 6


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    described = [broker.coordinator.describe(group_id) for group_id in request.message.groups]
    response: ResponsePayload = request.respond(
        "DescribeGroupsResponse",
        throttle_time=timedelta(0),
        groups=tuple(_group(request, group) for group in described),
    )
    return response


def _group(request: Request, group: GroupDescription) -> Any:
    missing = group.error is ErrorCode.group_id_not_found
    untold = missing and request.envelope.version < _FIRST_WITH_NOT_FOUND
    return request.respond(
        "DescribedGroup",
        error_code=ErrorCode.none if untold else group.error,
        error_message=f"there is no group {group.group_id}" if missing else None,
        group_id=group.group_id,
        group_state=group.state if group.error is ErrorCode.none or missing else "",
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=tuple(
            request.respond(
                "DescribedGroupMember",
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ),
    )
