"""IncrementalAlterConfigs, v0–v1.

Behaviour: sets and deletes single settings, adds to lists and takes away from them; a list that is
not set begins as its default. Only topics can be changed.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.core.errors import InvalidConfig
from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.config_changes import alter
from lakestream_spark.ingress.messages import Request
from lakestream_spark.ingress.refusal import Refusal
from lakestream_spark.metadata.topic_config import Kind
from lakestream_spark.metadata.topic_config.checked import find_setting
from lakestream_spark.metadata.topic_config.kinds import elements
from lakestream_spark.metadata.topics import ConfigChange

API_KEY: Final = 44
VERSIONS: Final = range(2)


class _Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


async def handle(broker: Broker, request: Request) -> ResponsePayload:
    return await alter(broker, request, "IncrementalAlterConfigsResponse", _changing)


def _changing(resource: Any) -> ConfigChange:
    for entry in resource.configs:
        _check(entry)

    def change(config: Mapping[str, str]) -> Mapping[str, str]:
        changed = dict(config)
        for entry in resource.configs:
            value = _changed(entry, changed.get(entry.name))
            if value is None:
                changed.pop(entry.name, None)
            else:
                changed[entry.name] = value
        return changed

    return change


def _check(entry: Any) -> None:
    operation = entry.config_operation
    if operation not in list(_Operation):
        raise Refusal(
            ErrorCode.invalid_request,
            f"{entry.name}: there is no operation {operation}; "
            "0 sets, 1 deletes, 2 adds to a list, 3 takes away from it",
        )
    if entry.value is None and operation != _Operation.DELETE:
        raise Refusal(ErrorCode.invalid_request, f"{entry.name} needs a value")


def _changed(entry: Any, now: str | None) -> str | None:
    """The new value of a setting, None when it is to be unset."""
    if entry.config_operation == _Operation.SET:
        return str(entry.value)
    if entry.config_operation == _Operation.DELETE:
        return None
    setting = find_setting(entry.name)
    if setting.takes.kind is not Kind.LIST:
        raise InvalidConfig(f"{entry.name} is not a list: set it as a whole")
    parts = elements(setting.default if now is None else now)
    given = elements(entry.value)
    if entry.config_operation == _Operation.APPEND:
        return ",".join(dict.fromkeys([*parts, *given]))
    return ",".join(part for part in parts if part not in given)
