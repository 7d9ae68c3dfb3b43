"""Changes of settings: what AlterConfigs and IncrementalAlterConfigs have in common.

What always holds: a resource is changed as a whole or not at all, in one transaction.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeAlias

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.config_entries import ResourceType
from lakestream_spark.ingress.messages import Request
from lakestream_spark.ingress.refusal import Refusal, outcome, repeated
from lakestream_spark.metadata.topics import ConfigChange

Change: TypeAlias = Callable[[Any], ConfigChange]
"""From a resource of a request to what becomes of its settings; raises `Refusal`."""

_UNCHANGEABLE: Final = {
    ResourceType.BROKER: "a broker's settings are in its settings file, environment and flags: "
    "change them there and start it again",
    ResourceType.BROKER_LOGGER: "log levels cannot be changed from here",
    ResourceType.CLIENT_METRICS: "client metrics are not offered",
    ResourceType.GROUP: "groups have no settings of their own here",
}


async def alter(broker: Broker, request: Request, kind: str, change: Change) -> ResponsePayload:
    """The response `kind` after every resource of the request was changed or refused."""
    message = request.message
    twice = repeated(message.resources, _identity)
    responses = []
    for resource in message.resources:
        only = _identity(resource) not in twice
        done = await outcome(_alter(broker, resource, change, only, message.validate_only))
        responses.append(
            request.respond(
                "AlterConfigsResourceResponse",
                error_code=done.code,
                error_message=done.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    response: ResponsePayload = request.respond(
        kind, throttle_time=timedelta(0), responses=tuple(responses)
    )
    return response


def _identity(resource: Any) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


async def _alter(
    broker: Broker, resource: Any, change: Change, only: bool, validate_only: bool
) -> None:
    if not only:
        raise Refusal(ErrorCode.invalid_request, "the request names this resource more than once")
    twice = repeated(resource.configs, lambda entry: entry.name)
    if twice:
        raise Refusal(
            ErrorCode.invalid_request, f"settings given twice: {', '.join(sorted(twice))}"
        )
    if resource.resource_type != ResourceType.TOPIC:
        raise Refusal(
            ErrorCode.invalid_request,
            _UNCHANGEABLE.get(
                resource.resource_type, f"there is no resource type {resource.resource_type}"
            ),
        )
    wanted = change(resource)
    topics = broker.admin.topics
    topic = await topics.get(resource.resource_name)
    broker.admin.changed(await topics.change_config(topic.id, wanted, validate_only=validate_only))
