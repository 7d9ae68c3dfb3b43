"""A topic's settings as typed values, cheap enough to ask for on every request.

A stored value that this version cannot read counts as not set: it was checked when it was stored,
so a newer version wrote it, and every default here is the one that loses nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Self

from lakestream_spark.metadata.topic_config.checked import SETTINGS
from lakestream_spark.metadata.topic_config.kafka import APPEND_TIME
from lakestream_spark.metadata.topic_config.lakestream import (
    OWNER,
    PREFIX,
    TABLE_NAME,
    table_identifier,
)

KEEP: Final = -1
"""The value of every retention that keeps everything."""
_CACHED: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """What the settings of a topic say. `max_message_bytes` is None where the broker decides."""

    append_time: bool
    compacted: bool
    expires: bool
    compression: str
    max_message_bytes: int | None
    retention_ms: int
    retention_bytes: int
    profile: str
    table_lag_ms: int
    table_formats: tuple[str, ...]
    table: tuple[str, str] | None
    """Namespace and name, if they are not those that follow from the topic's name."""
    owner: str | None
    table_retention_ms: int
    drop_table_on_delete: bool

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "TopicConfig":
        """The values for a topic's own settings; equal settings give the same object."""
        return _of(frozenset(config.items())) if config else _DEFAULTS

    @classmethod
    def read(cls, config: Mapping[str, str]) -> Self:
        policy: tuple[str, ...] = _value(config, "cleanup.policy")
        kept = "delete" not in policy
        largest = _value(config, "max.message.bytes") if "max.message.bytes" in config else None
        return cls(
            append_time=_value(config, "message.timestamp.type") == APPEND_TIME,
            compacted="compact" in policy,
            expires=not kept,
            compression=_value(config, "compression.type"),
            max_message_bytes=largest,
            # As in Kafka: retention is for topics with the policy `delete`.
            retention_ms=KEEP if kept else _value(config, "retention.ms"),
            retention_bytes=KEEP if kept else _value(config, "retention.bytes"),
            profile=_value(config, f"{PREFIX}profile"),
            table_lag_ms=_value(config, f"{PREFIX}table.lag.ms"),
            table_formats=_value(config, f"{PREFIX}table.formats"),
            table=table_identifier(name) if (name := _value(config, TABLE_NAME)) else None,
            owner=_value(config, OWNER) or None,
            table_retention_ms=_value(config, f"{PREFIX}table.retention.ms"),
            drop_table_on_delete=_value(config, f"{PREFIX}table.on.delete") == "drop",
        )


def _value(config: Mapping[str, str], name: str) -> Any:
    setting = SETTINGS[name]
    try:
        return setting.takes.read(config.get(name, setting.default))
    except ValueError:
        return setting.takes.read(setting.default)


@lru_cache(maxsize=_CACHED)
def _of(items: frozenset[tuple[str, str]]) -> TopicConfig:
    return TopicConfig.read(dict(items))


_DEFAULTS: Final = TopicConfig.read({})
