"""FindCoordinator, v0–v6.

Behaviour: names the broker that holds the lease of the group's slot; if nobody does, this broker
takes it. While it changes hands the answer is COORDINATOR_NOT_AVAILABLE, which clients repeat.
Version notes: up to v3 one key, from v4 many. Transactional ids (key type 1) are refused so that
each client stops at once and shows our sentence: those that ask by v0–v3 (librdkafka) stop at
TRANSACTIONAL_ID_AUTHORIZATION_FAILED only and repeat everything else; newer ones (Java, franz-go)
stop at UNSUPPORTED_VERSION and would drop the sentence with the other.
Not done: transactions, share groups.
"""

from datetime import timedelta
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.messages import Request
from lakestream_spark.metadata.brokers import Node

API_KEY: Final = 10
VERSIONS: Final = range(7)

_GROUP: Final = 0
_TRANSACTION: Final = 1
_FIRST_BATCHED: Final = 4
_NOWHERE: Final = Node(-1, "", -1)
_NO_TRANSACTIONS: Final = "transactions are not offered: leave transactional.id unset"
_NO_SUCH_TYPE: Final = "only the coordinators of consumer groups can be found"


class _Found(NamedTuple):
    node: Node = _NOWHERE
    code: ErrorCode = ErrorCode.none
    message: str | None = None


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    message = request.message
    kind = getattr(message, "key_type", _GROUP)
    if request.envelope.version < _FIRST_BATCHED:
        found = await _find(broker, request, kind, message.key)
        return _response(request, **_fields(found))
    coordinators = [
        request.respond("Coordinator", key=key, **_fields(await _find(broker, request, kind, key)))
        for key in message.coordinator_keys
    ]
    return _response(request, coordinators=tuple(coordinators))


async def _find(broker: Broker, request: Request, kind: int, key: str) -> _Found:
    if kind == _TRANSACTION:
        old = request.envelope.version < _FIRST_BATCHED
        code = ErrorCode.transactional_id_authorization_failed
        return _Found(code=code if old else ErrorCode.unsupported_version, message=_NO_TRANSACTIONS)
    if kind != _GROUP:
        return _Found(code=ErrorCode.invalid_request, message=_NO_SUCH_TYPE)
    node = None if broker.groups is None else await broker.groups.coordinator(key)
    if node is None:
        return _Found(code=ErrorCode.coordinator_not_available)
    return _Found(node)


def _fields(found: _Found) -> dict[str, Any]:
    node = found.node
    return {
        "node_id": node.node_id,
        "host": node.host,
        "port": node.port,
        "error_code": found.code,
        "error_message": found.message,
    }


def _response(request: Request, **values: object) -> ResponsePayload:
    response: ResponsePayload = request.respond(
        "FindCoordinatorResponse", throttle_time=timedelta(0), **values
    )
    return response
