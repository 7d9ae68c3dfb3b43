"""DescribeCluster, v0–v2.

Behaviour: lists the live brokers and names this one as the controller, because any broker does the
work of one. Operations are listed for those who ask: without authentication, all of them.
Version notes: from v1 the kind of node is asked for, and there are only brokers; from v2 fenced
brokers can be asked for, and a fenced broker is not known any more.
"""

from datetime import timedelta
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.messages import Request

API_KEY: Final = 60
VERSIONS: Final = range(3)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
_NOT_ASKED: Final = -(2**31)
# create, alter, describe, cluster action, describe configs, alter configs, idempotent write
_ALL_OPERATIONS: Final = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    message = request.message
    kind = getattr(message, "endpoint_type", _BROKERS)
    if kind == _CONTROLLERS:
        return _refuse(broker, request, ErrorCode.mismatched_endpoint_type, "this is a broker")
    if kind != _BROKERS:
        reason = f"there are no endpoints of type {kind}; type {_BROKERS} are brokers"
        return _refuse(broker, request, ErrorCode.unsupported_endpoint_type, reason)
    response: ResponsePayload = request.respond(
        "DescribeClusterResponse",
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=kind,
        cluster_id=broker.address.cluster_id,
        controller_id=broker.address.node_id,
        brokers=tuple(
            request.respond(
                "DescribeClusterBroker",
                broker_id=node.node_id,
                host=node.host,
                port=node.port,
                rack=node.rack,
                is_fenced=False,
            )
            for node in broker.cluster.brokers()
        ),
        cluster_authorized_operations=(
            _ALL_OPERATIONS if message.include_cluster_authorized_operations else _NOT_ASKED
        ),
    )
    return response


def _refuse(broker: Broker, request: Request, code: ErrorCode, reason: str) -> ResponsePayload:
    response: ResponsePayload = request.respond(
        "DescribeClusterResponse",
        throttle_time=timedelta(0),
        error_code=code,
        error_message=reason,
        cluster_id=broker.address.cluster_id,
        brokers=(),
    )
    return response
