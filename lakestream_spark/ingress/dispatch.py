"""API key and version -> handler. What is not in this table is not offered to clients.

Produce is begun in the order of arrival, because offsets follow it; all others start at once and
only their answers wait for their turn.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple

from kio.static.protocol import ResponsePayload

from lakestream_spark.core import metrics
from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Rejected
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.client import Client
from lakestream_spark.ingress.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)
from lakestream_spark.ingress.hostile import check_size
from lakestream_spark.ingress.messages import (
    Envelope,
    Frame,
    Request,
    api_name,
    encode_response,
    errors_in,
    read_request,
)
from lakestream_spark.kafka.pieces import Pieces

Handle = Callable[[Broker, Request], Awaitable[ResponsePayload | None]]
Begin = Callable[[Broker, Request], Awaitable[Awaitable[ResponsePayload | None]]]


class Api(NamedTuple):
    """One API: its key, the versions offered, and how a request of it is begun."""

    key: int
    versions: range
    begin: Begin


def _at_once(handle: Handle) -> Begin:
    async def begin(broker: Broker, request: Request) -> Awaitable[ResponsePayload | None]:
        return handle(broker, request)

    return begin


async def _api_versions(_: Broker, request: Request) -> ResponsePayload:
    return api_versions.answer(request, OFFERED)


_HANDLERS: Final = (
    # records
    fetch,
    list_offsets,
    metadata,
    init_producer_id,
    offset_for_leader_epoch,
    # administration
    create_topics,
    delete_topics,
    create_partitions,
    delete_records,
    describe_configs,
    alter_configs,
    incremental_alter_configs,
    describe_cluster,
    describe_topic_partitions,
    describe_log_dirs,
    # groups
    find_coordinator,
    join_group,
    sync_group,
    heartbeat,
    leave_group,
    offset_commit,
    offset_fetch,
    offset_delete,
    describe_groups,
    list_groups,
    delete_groups,
)

APIS: Final = {
    api.key: api
    for api in (
        Api(produce.API_KEY, produce.VERSIONS, produce.begin),
        Api(api_versions.API_KEY, api_versions.VERSIONS, _at_once(_api_versions)),
        *(Api(each.API_KEY, each.VERSIONS, _at_once(each.handle)) for each in _HANDLERS),
    )
}

OFFERED: Final = {api.key: api.versions for api in APIS.values()}

_SERIES: Final = {key: metrics.api(api_name(key, api.versions[0])) for key, api in APIS.items()}


async def begin(
    broker: Broker, envelope: Envelope, frame: Frame, client: Client
) -> Coroutine[Any, Any, Pieces | None]:
    """Start a request; the result becomes its encoded answer (None: no answer is sent)."""
    api = APIS.get(envelope.api_key)
    if api is None:
        raise Rejected("this API is not offered", api=envelope.api_key)
    if envelope.version not in api.versions:
        if api.key == api_versions.API_KEY:
            return _encoded(envelope, _given(api_versions.unsupported(OFFERED)))
        raise Rejected(
            "this version of the API is not offered", api=envelope.api_key, version=envelope.version
        )
    check_size(envelope, frame, broker.limits.max_control_bytes)
    began = broker.clock.monotonic()
    answer = await api.begin(broker, read_request(envelope, frame, client))
    return _counted(_encoded(envelope, answer), envelope, broker.clock, began, len(frame))


async def _given(response: ResponsePayload) -> ResponsePayload:
    return response


async def _encoded(envelope: Envelope, answer: Awaitable[ResponsePayload | None]) -> Pieces | None:
    response = await answer
    if response is None:
        return None
    for error in errors_in(response):
        _SERIES[envelope.api_key].failed(error.name)
    return encode_response(envelope, response)


async def _counted(
    answer: Awaitable[Pieces | None],
    envelope: Envelope,
    clock: Clock,
    began: float,
    request_bytes: int,
) -> Pieces | None:
    encoded = await answer
    series = _SERIES[envelope.api_key]
    series.answered(clock.monotonic() - began, request_bytes, len(encoded) if encoded else 0)
    return encoded
