"""AlterConfigs, v0–v2.

Behaviour: the settings given take the place of all that the topic had. Only topics can be changed.
"""

from collections.abc import Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.config_changes import alter
from lakestream_spark.ingress.messages import Request
from lakestream_spark.ingress.refusal import Refusal
from lakestream_spark.metadata.topics import ConfigChange

API_KEY: Final = 33
VERSIONS: Final = range(3)


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    return await alter(broker, request, "AlterConfigsResponse", _replacing)


def _replacing(resource: Any) -> ConfigChange:
    without = [entry.name for entry in resource.configs if entry.value is None]
    if without:
        raise Refusal(ErrorCode.invalid_request, f"settings without a value: {', '.join(without)}")
    config = {entry.name: entry.value for entry in resource.configs}

    def change(_: Mapping[str, str]) -> Mapping[str, str]:
        return config

    return change
