"""Settings as clients are shown them: value, where it comes from, type and doc."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from lakestream_spark.ingress.broker import Broker
from lakestream_spark.ingress.broker_settings import BROKER_SETTINGS, BrokerSetting
from lakestream_spark.metadata.topic_config import SETTINGS, Kind, Setting

_MAX_MESSAGE_BYTES: Final = "max.message.bytes"


class ResourceType(IntEnum):
    """What settings belong to, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    """Where a value comes from, by Kafka's numbers."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class Synonym(NamedTuple):
    """A place that could give the value, the strongest first."""

    name: str
    value: str | None
    source: Source


class Entry(NamedTuple):
    """One setting of a topic or broker; a sensitive one has no value here."""

    name: str
    value: str | None
    source: Source
    kind: Kind
    doc: str
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[Synonym, ...] = ()


def topic_entries(broker: Broker, config: Mapping[str, str]) -> list[Entry]:
    """Every topic setting, for a topic with these of its own."""
    return [_topic_entry(broker, setting, config) for setting in SETTINGS.values()]


def _topic_entry(broker: Broker, setting: Setting, config: Mapping[str, str]) -> Entry:
    synonyms = []
    if setting.name in config:
        synonyms.append(Synonym(setting.name, config[setting.name], Source.TOPIC))
    default = _default(broker, setting)
    if setting.server_name is not None:
        synonyms.append(default)
    chosen = synonyms[0] if synonyms else default
    return Entry(
        name=setting.name,
        value=chosen.value,
        source=chosen.source,
        kind=setting.takes.kind,
        doc=setting.doc,
        synonyms=tuple(synonyms),
    )


def _default(broker: Broker, setting: Setting) -> Synonym:
    value = setting.default
    if setting.name == _MAX_MESSAGE_BYTES:
        value = str(broker.limits.max_message_bytes)
    source = Source.DEFAULT if value == setting.default else Source.STATIC_BROKER
    return Synonym(setting.server_name or setting.name, value, source)


def broker_entries(broker: Broker) -> list[Entry]:
    """Every setting of this broker that has a name of Kafka's."""
    return [_broker_entry(broker, setting) for setting in BROKER_SETTINGS]


def _broker_entry(broker: Broker, setting: BrokerSetting) -> Entry:
    value = None if setting.sensitive else setting.value(broker)
    source = Source.DEFAULT if value == setting.default else Source.STATIC_BROKER
    return Entry(
        name=setting.name,
        value=value,
        source=source,
        kind=setting.kind,
        doc=setting.doc,
        read_only=True,
        sensitive=setting.sensitive,
        synonyms=(Synonym(setting.name, value, source),),
    )
