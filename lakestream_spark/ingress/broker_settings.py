"""The broker's settings under Kafka's names, as DescribeConfigs shows them.

All are read-only: they come from the settings file, the environment and flags, for which
`conf/lakestream.toml` is the reference. Defaults of topics are taken from the topic settings.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from lakestream_spark.groups.limits import GroupLimits
from lakestream_spark.ingress.broker import Broker, Limits
from lakestream_spark.metadata.topic_config import SETTINGS, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSetting:
    """One setting: how its text is read off a broker, and the text it has when nobody set it."""

    name: str
    kind: Kind
    doc: str
    value: Callable[[Broker], str | None]
    default: str | None = None
    sensitive: bool = False


def without_secrets(url: str) -> str:
    """The URL without user, password and options."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def log_dirs(broker: Broker) -> list[str]:
    """The places of the WAL, each once."""
    return list(dict.fromkeys(without_secrets(url) for url in broker.admin.log_dirs.values()))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _limit(broker: Broker, *, attribute: str) -> str:
    return _text(getattr(broker.limits, attribute))


def _from_limits(name: str, kind: Kind, attribute: str, doc: str) -> BrokerSetting:
    return BrokerSetting(
        name=name,
        kind=kind,
        doc=doc,
        value=partial(_limit, attribute=attribute),
        default=_text(getattr(Limits(), attribute)),
    )


def _given(name: str, kind: Kind, default: object, doc: str) -> BrokerSetting:
    """One that the process tells, because no handler needs it."""
    text = _text(default)
    return BrokerSetting(
        name=name,
        kind=kind,
        doc=doc,
        value=lambda broker: broker.admin.settings.get(name, text),
        default=text,
    )


def _fixed(name: str, kind: Kind, value: str, doc: str) -> BrokerSetting:
    return BrokerSetting(name=name, kind=kind, doc=doc, value=lambda _: value, default=value)


def _topic_defaults() -> list[BrokerSetting]:
    return [
        _fixed(setting.server_name, setting.takes.kind, setting.default, setting.doc)
        for setting in SETTINGS.values()
        if setting.acts and setting.server_name and setting.server_name != "message.max.bytes"
    ]


_OWN: Final = [
    BrokerSetting(
        name="node.id",
        kind=Kind.INT,
        doc="The id under which clients know this broker.",
        value=lambda broker: str(broker.address.node_id),
    ),
    BrokerSetting(
        name="broker.id",
        kind=Kind.INT,
        doc="The same as node.id.",
        value=lambda broker: str(broker.address.node_id),
    ),
    BrokerSetting(
        name="broker.rack",
        kind=Kind.STRING,
        doc="The zone of this broker.",
        value=lambda broker: broker.address.rack,
    ),
    BrokerSetting(
        name="advertised.listeners",
        kind=Kind.LIST,
        doc="How clients reach this broker.",
        value=lambda broker: f"PLAINTEXT://{broker.address.host}:{broker.address.port}",
    ),
    BrokerSetting(
        name="log.dirs",
        kind=Kind.LIST,
        doc="Where the WAL lies.",
        value=lambda broker: ",".join(log_dirs(broker)),
    ),
    _from_limits("socket.request.max.bytes", Kind.INT, "max_request_bytes", "The largest request."),
    _from_limits(
        "message.max.bytes",
        Kind.INT,
        "max_message_bytes",
        "The largest record batch, for topics that do not set max.message.bytes.",
    ),
    _from_limits(
        "fetch.max.bytes",
        Kind.INT,
        "max_fetch_bytes",
        "The most that one answer to a fetch holds, whatever the client asks for.",
    ),
    _from_limits(
        "auto.create.topics.enable",
        Kind.BOOLEAN,
        "auto_create_topics",
        "A topic that a client asks for is made when it is not there.",
    ),
    _from_limits(
        "num.partitions",
        Kind.INT,
        "default_partitions",
        "The partitions of a topic for which none are asked for.",
    ),
    _fixed(
        "default.replication.factor",
        Kind.INT,
        "1",
        "What a topic shows for which no factor is asked for; the object store replicates.",
    ),
    _fixed("delete.topic.enable", Kind.BOOLEAN, "true", "Topics can be deleted."),
]

_GROUPS: Final = GroupLimits()

_TOLD: Final = [
    _given("max.connections", Kind.INT, 10_000, "Open connections of clients."),
    _given("max.connections.per.ip", Kind.INT, 10_000, "The same for each address of a client."),
    _given(
        "connections.max.idle.ms",
        Kind.LONG,
        600_000,
        "A connection without a request for this long is closed.",
    ),
    _given(
        "max.incremental.fetch.session.cache.slots",
        Kind.INT,
        1_000,
        "Fetch sessions that are remembered.",
    ),
    _given(
        "log.retention.check.interval.ms",
        Kind.LONG,
        300_000,
        "How often retention.ms and retention.bytes are applied.",
    ),
    _given(
        "producer.id.expiration.ms",
        Kind.INT,
        86_400_000,
        "An idempotent producer that was silent for this long is forgotten.",
    ),
    _given(
        "group.initial.rebalance.delay.ms",
        Kind.INT,
        _GROUPS.initial_rebalance_delay_ms,
        "How long a group that was empty waits for more members.",
    ),
    _given(
        "group.min.session.timeout.ms",
        Kind.INT,
        _GROUPS.min_session_timeout_ms,
        "The shortest session timeout a member may ask for.",
    ),
    _given(
        "group.max.session.timeout.ms",
        Kind.INT,
        _GROUPS.max_session_timeout_ms,
        "The longest session timeout a member may ask for.",
    ),
    _given("group.max.size", Kind.INT, _GROUPS.max_size, "The most members of a group."),
    _given(
        "offset.metadata.max.bytes",
        Kind.INT,
        _GROUPS.max_metadata_chars,
        "The longest note that may be kept with a committed offset.",
    ),
    _given(
        "offsets.retention.minutes",
        Kind.INT,
        _GROUPS.offsets_retention_ms // 60_000,
        "Offsets of a group that has been empty for this long are forgotten.",
    ),
]

BROKER_SETTINGS: Final = sorted(
    [*_OWN, *_TOLD, *_topic_defaults()], key=lambda setting: setting.name
)
