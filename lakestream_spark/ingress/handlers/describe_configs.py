"""DescribeConfigs, v1–v4.

Behaviour: all settings of a topic, or those of this broker that Kafka has a name for; asking for
none by name is asking for all. A broker has no settings that all brokers share: those are empty.
Version notes: from v3 types, and docs for those who ask.
Not done: log levels, client metrics and settings of groups, which are refused.
"""

from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.config_entries import (
    Entry,
    ResourceType,
    broker_entries,
    topic_entries,
)
from lakestream_spark.ingress.messages import Request
from lakestream_spark.ingress.refusal import Refusal, outcome, repeated

API_KEY: Final = 32
VERSIONS: Final = range(1, 5)


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    resources = request.message.resources
    twice = repeated(resources, _identity)
    results = []
    for resource in resources:
        # Each once: a small request must not become a huge answer.
        done = await outcome(_entries(broker, resource, _identity(resource) in twice))
        wanted = resource.configuration_keys
        entries = [each for each in done.result or () if not wanted or each.name in wanted]
        results.append(
            request.respond(
                "DescribeConfigsResult",
                error_code=done.code,
                error_message=done.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=tuple(_describe(request, entry) for entry in entries),
            )
        )
    response: ResponsePayload = request.respond(
        "DescribeConfigsResponse", throttle_time=timedelta(0), results=tuple(results)
    )
    return response


def _identity(resource: Any) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


async def _entries(broker: Broker, resource: Any, twice: bool) -> list[Entry]:
    if twice:
        raise Refusal(ErrorCode.invalid_request, "the request names this resource more than once")
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            topic = await broker.admin.topics.get(name)
            return topic_entries(broker, topic.config)
        case ResourceType.BROKER if name == "":
            return []
        case ResourceType.BROKER if name == str(broker.address.node_id):
            return broker_entries(broker)
        case ResourceType.BROKER:
            reason = f"this is broker {broker.address.node_id}: ask broker {name[:20]!r} itself"
        case ResourceType.BROKER_LOGGER | ResourceType.CLIENT_METRICS | ResourceType.GROUP as other:
            reason = f"{ResourceType(other).name} settings are not offered; TOPIC and BROKER are"
        case unknown:
            reason = f"there is no resource type {unknown}"
    raise Refusal(ErrorCode.invalid_request, reason)


def _describe(request: Request, entry: Entry) -> Any:
    synonyms = entry.synonyms if request.message.include_synonyms else ()
    with_doc = getattr(request.message, "include_documentation", False)
    return request.respond(
        "DescribeConfigsResourceResult",
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=tuple(
            request.respond(
                "DescribeConfigsSynonym", name=each.name, value=each.value, source=each.source
            )
            for each in synonyms
        ),
        config_type=entry.kind,
        documentation=entry.doc if with_doc else None,
    )
