"""The tree of settings: every key with its type, its default and its doc (the string below it)."""

from collections.abc import Iterator
from json import loads
from typing import Final, Literal, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from lakestream_spark.objectstore.options import StoreOptions

KIB = 1024
MIB = 1024 * KIB
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
MIN_TOKEN = 16


class Section(BaseModel):
    """A table of the settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class MetadataSettings(Section):
    """The transactional store that gives offsets: SQLite on one host, PostgreSQL for many."""

    url: str
    """`sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/DATABASE`."""


class StorePlace(Section):
    """Where the object store is."""

    url: str
    """Folder or bucket prefix: `file://`, `s3://`, `gs://`, `az://` or `memory://`. Every broker
    and every Spark executor must reach it, so `file://` is for one host only."""


# The place is the second base so that its key comes first in the file.
class StoreSettings(StoreOptions, StorePlace):
    """The object store that holds the WAL, and how to reach it."""

    def options(self) -> StoreOptions:
        """All but the place, as the object store takes it."""
        return StoreOptions(**self.model_dump(exclude={"url"}))


LATENCY_AHEAD: Final = 2
"""Segments of the latency profile under way at a time: one is stored, one is committed."""


class CostProfile(Section):
    """Topics with `lakestream.profile=cost`: cheap, the WAL lies in `store.url`."""

    flush_interval_ms: int = Field(default=250, ge=1)
    """A WAL segment is sealed this long after its first batch."""
    flush_bytes: int = Field(default=8 * MIB, ge=64 * KIB)
    """A WAL segment is sealed when it holds this many bytes."""


class LatencyProfile(Section):
    """Topics with `lakestream.profile=latency`: quick, the WAL may lie on faster storage."""

    url: str
    """Where the WAL of these topics lies: an express bucket or a shared file system."""
    flush_interval_ms: int = Field(default=2, ge=1)
    """A WAL segment is sealed this long after its first batch."""
    flush_bytes: int = Field(default=1 * MIB, ge=64 * KIB)
    """A WAL segment is sealed when it holds this many bytes."""


class WalSettings(Section):
    """Writing, reading and reclaiming WAL segments."""

    max_uploads: int = Field(default=4, ge=1)
    """Segments of one profile that upload at the same time."""
    max_inflight_bytes: int = Field(default=64 * MIB, ge=1 * MIB)
    """Bytes a profile holds that are not committed yet; callers wait when it is full."""
    answer_within_ms: int = Field(default=30 * SECOND_MS, ge=1)
    """A batch gets its offset or a retriable error within this time."""
    cache_bytes: int = Field(default=128 * MIB, ge=0)
    """Memory for recent WAL segments, so that consumers at the tail cost no requests."""
    grace_period_ms: int = Field(default=1 * MINUTE_MS, ge=0)
    """A segment that nothing refers to stays readable this long."""
    evacuate_after_ms: int = Field(default=10 * MINUTE_MS, ge=0)
    """Older segments that a minority of their bytes holds are copied together and deleted."""
    reclaim_interval_ms: int = Field(default=1 * MINUTE_MS, ge=100)
    """How often one of the brokers looks for segments that nobody needs."""
    cost: CostProfile = CostProfile()
    latency: LatencyProfile


class BrokerSettings(Section):
    """The Kafka node. Without authentication it listens on loopback unless told otherwise."""

    id: int = Field(default=1, ge=0)
    """Node id; two live brokers of one metadata store never share one."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=9092, ge=0, le=65535)
    """Kafka port; 0 picks a free one and prints it."""
    admin_port: int = Field(default=8092, ge=0, le=65535)
    """Port for the status page, metrics and health; 0 picks a free one."""
    admin_host: str = "127.0.0.1"
    """Address to listen on for the status page, metrics and health."""
    admin_token: SecretStr | None = None
    """What a browser gives as the password (of any user) to see the status page, at least 16
    characters. Unless `admin_host` is a loopback address there is no page without it; metrics and
    health need none."""
    advertised_host: str
    """Name under which clients reach this broker."""
    rack: str | None = None
    """Zone of this broker; clients that name theirs are served within it."""
    heartbeat_interval_ms: int = Field(default=1 * SECOND_MS, ge=10)
    """How often the broker shows the others that it lives."""
    session_timeout_ms: int = Field(default=6 * SECOND_MS, ge=40)
    """A broker that does not beat for this long is named to clients no more; at least four times
    the interval. After three sessions it is taken out for good, and has to start again."""
    shutdown_timeout_ms: int = Field(default=15 * SECOND_MS, ge=0)
    """A broker that is told to stop finishes what it has begun within this time."""
    max_connections: int = Field(default=10_000, ge=1)
    """Open connections of clients; one more is closed at once."""
    max_connections_per_ip: int = Field(default=10_000, ge=1)
    """The same for each address of a client."""
    connections_max_idle_ms: int = Field(default=10 * MINUTE_MS, ge=1)
    """A connection without a request for this long is closed."""
    socket_request_max_bytes: int = Field(default=100 * MIB, ge=1 * KIB, le=2**31 - 1)
    """The largest request; a client that announces more is cut off."""
    message_max_bytes: int = Field(default=1 * MIB + 12, ge=0, le=2**31 - 1)
    """The largest record batch, for topics that do not set `max.message.bytes`."""
    fetch_max_bytes: int = Field(default=55 * MIB, ge=1 * KIB, le=2**31 - 1)
    """The most that one answer to a fetch holds, whatever the client asks for; a first batch that
    is larger is still sent whole."""
    auto_create_topics_enable: bool = True
    """A topic that a client asks for is made when it is not there."""
    num_partitions: int = Field(default=1, ge=1, le=10_000)
    """Partitions of a topic for which nobody names a number."""
    max_control_bytes: int = Field(default=1 * MIB, ge=1 * KIB, le=2**31 - 1)
    """The largest request of any kind but Produce: names of tens of thousands of partitions."""
    max_requests_in_flight: int = Field(default=64, ge=1)
    """Requests of one connection that are read before the first of them is answered."""
    max_inflight_bytes: int = Field(default=256 * MIB, ge=1 * MIB)
    """Bytes of requests that are not answered yet, of all connections; beyond that nothing more
    is read. At least as much as the largest request."""
    busy_timeout_ms: int = Field(default=30 * SECOND_MS, ge=1)
    """A connection whose next request finds no room for this long is closed."""
    max_fetch_sessions: int = Field(default=1000, ge=1)
    """Fetch sessions that are remembered (`max.incremental.fetch.session.cache.slots`)."""
    retention_check_interval_ms: int = Field(default=5 * MINUTE_MS, ge=100)
    """How often one of the brokers applies `retention.ms` and `retention.bytes`."""
    producer_id_expiration_ms: int = Field(default=1 * DAY_MS, ge=1)
    """An idempotent producer that was silent for this long is forgotten."""

    @field_validator("admin_token")
    @classmethod
    def _long_enough(cls, token: SecretStr | None) -> SecretStr | None:
        if token is not None and len(token.get_secret_value()) < MIN_TOKEN:
            raise ValueError(f"a token has at least {MIN_TOKEN} characters")
        return token


class GroupSettings(Section):
    """Consumer groups; the names are Kafka's, without `group.` in front where they have it."""

    initial_rebalance_delay_ms: int = Field(default=0, ge=0)
    """How long a group that was empty waits for more members before its first generation."""
    min_session_timeout_ms: int = Field(default=6 * SECOND_MS, ge=1)
    """The shortest session timeout that a member may ask for."""
    max_session_timeout_ms: int = Field(default=30 * MINUTE_MS, ge=1)
    """The longest session timeout that a member may ask for."""
    max_size: int = Field(default=2**31 - 1, ge=1)
    """Members that a group may have."""
    offsets_retention_minutes: int = Field(default=7 * 24 * 60, ge=1)
    """How long the offsets of a group without members are kept (`offsets.retention.minutes`)."""
    offset_metadata_max_bytes: int = Field(default=4096, ge=0)
    """The longest note with a committed offset (`offset.metadata.max.bytes`), in characters."""


class CatalogSettings(Section):
    """The Iceberg catalog that holds the tables: whatever pyiceberg opens."""

    name: str = "lake"
    """Name of the catalog; Spark and pyiceberg must agree on it."""
    type: str = "sql"
    """Kind of catalog: `sql`, `rest`, `glue`, ..."""
    uri: str
    """Address of the catalog."""
    warehouse: str
    """Folder or bucket prefix for the tables."""
    properties: dict[str, str] = {}
    """Further properties, handed to pyiceberg and Spark as they are."""

    @field_validator("properties", mode="before")
    @classmethod
    def _from_json(cls, value: object) -> object:
        return loads(value) if isinstance(value, str) else value


class HistorySettings(Section):
    """Reading records back from the tables, in a process of its own beside each broker."""

    memory_bytes: int = Field(default=256 * MIB, ge=16 * MIB)
    """Memory for what is read from tables: half for batches that are kept for the next reader, the
    rest for open files and for answers on their way. More of it helps many readers at once."""


class CompactSettings(Section):
    """The Spark job that moves records from the WAL into the tables."""

    master: str = "local[2]"
    """Spark master of `lakestream compact` and `lakestream up`; spark-submit has its own."""
    batch_bytes: int = Field(default=512 * MIB, ge=1 * MIB)
    """WAL bytes that one micro-batch moves at most, so that a long backlog drains steadily."""
    task_bytes: int = Field(default=64 * MIB, ge=1 * MIB)
    """WAL bytes of one task and of one file; a task needs a few times as much memory, and once up
    to 2.7 GB for a batch that decompresses to 256 MiB, which is the most that is allowed."""
    file_bytes: int = Field(default=128 * MIB, ge=1 * MIB)
    """A topic with so many WAL bytes in one partition does not wait for its
    `lakestream.table.lag.ms`, nor does one with `batch_bytes` in all of them."""
    poll_interval_ms: int = Field(default=250, ge=10)
    """How often the job looks for records that are due."""
    session_timeout_ms: int = Field(default=10 * SECOND_MS, ge=100)
    """A job that is silent for this long loses its tables to another."""
    checkpoint: str | None = None
    """Folder of Spark's checkpoint on the driver's disk; a temporary one unless named. Losing it
    loses nothing: the tables' own offsets count."""
    admin_port: int = Field(default=0, ge=0, le=65535)
    """Port for metrics and health of the job, on `broker.admin_host`; 0 picks a free one."""
    ui_port: int = Field(default=-1, ge=-1, le=65535)
    """Port of Spark's own pages, with the progress of every batch, in `lakestream compact` and
    `lakestream up`, on 127.0.0.1 only; 0 picks a free one, which the log tells, and -1 shows none.
    With spark-submit it is `spark.ui.port`."""


class MaintainSettings(Section):
    """Looking after the tables: merging small files, expiring snapshots, collecting orphans."""

    interval_ms: int = Field(default=1 * MINUTE_MS, ge=100)
    """How often every topic is looked after; `lakestream maintain --every` outranks it."""
    target_file_bytes: int = Field(default=256 * MIB, ge=1 * MIB)
    """Small files are merged toward this size; three quarters of it are big enough."""
    merge_min_files: int = Field(default=16, ge=2)
    """So many small files in a row are merged at the next look; fewer wait for the hour."""
    snapshots_kept: int = Field(default=100, ge=1)
    """The newest snapshots of a table that stay; more of them make every commit slower."""
    hourly_tags: int = Field(default=24, ge=0)
    """For so many hours one snapshot of each hour stays as well, under a tag."""
    daily_tags: int = Field(default=30, ge=0)
    """For so many days one snapshot of each day stays as well, under a tag."""
    orphan_grace_ms: int = Field(default=1 * DAY_MS, ge=1 * HOUR_MS)
    """A file that no snapshot refers to any more stays this long for those who still read it."""
    admin_port: int = Field(default=0, ge=0, le=65535)
    """Port for metrics and health of `lakestream maintain`, on `broker.admin_host`; 0 picks a free
    one. In `lakestream up` the compaction's port shows these metrics too."""


class LogSettings(Section):
    """The log of the process, on its standard error: one line per event."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important events to write."""
    format: Literal["text", "json"] = "text"
    """`text`: a sentence and `key=value` words; `json`: one object per line."""


class Settings(BaseSettings):
    """The whole tree. Build it with `load`, which knows where every value came from."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    data: str = "./lakestream-data"
    """Folder or URL. With a folder everything lies under it: metadata, WAL, catalog, tables."""
    metadata: MetadataSettings
    store: StoreSettings
    wal: WalSettings
    broker: BrokerSettings
    groups: GroupSettings = GroupSettings()
    catalog: CatalogSettings
    history: HistorySettings = HistorySettings()
    compact: CompactSettings = CompactSettings()
    maintain: MaintainSettings = MaintainSettings()
    log: LogSettings = LogSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - ours know where a value was written
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Exactly the sources that `load` passes, strongest first."""
        kwargs = cast(InitSettingsSource, init_settings).init_kwargs
        return tuple(make(settings_cls) for make in kwargs["sources"])


class Key(NamedTuple):
    """A key of the tree that holds a value, with the section it stands in."""

    path: str
    field: FieldInfo
    section: type[BaseModel]


def keys(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[Key]:
    """Every key that holds a value, in the order of the tree."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from keys(kind, f"{prefix}{name}.")
        else:
            yield Key(f"{prefix}{name}", field, model)


KEYS: dict[str, Key] = {key.path: key for key in keys()}
SECTIONS = {path.rpartition(".")[0] for path in KEYS if "." in path}


def is_secret(path: str) -> bool:
    """True when the value of this key must never be shown."""
    return KEYS[path].field.annotation == SecretStr | None
