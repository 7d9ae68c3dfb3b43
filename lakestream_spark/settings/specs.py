"""What components take as arguments, made from the settings: values only, nothing is opened."""

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.groups import GroupLimits
from lakestream_spark.ingress.broker import Limits
from lakestream_spark.ingress.cluster import Liveness
from lakestream_spark.ingress.housekeeping import HousekeepingPolicy
from lakestream_spark.ingress.server import ConnectionLimits
from lakestream_spark.settings.storage import catalog_spec, wal_stores
from lakestream_spark.settings.tree import LATENCY_AHEAD, Settings
from lakestream_spark.table.upkeep.policy import (
    MergePolicy,
    OrphanPolicy,
    SnapshotPolicy,
    UpkeepPolicy,
)
from lakestream_spark.wal.reclaim import ReclaimPolicy
from lakestream_spark.wal.writer import FlushPolicy

__all__ = [
    "catalog_spec",
    "connection_limits",
    "flush_policies",
    "group_limits",
    "housekeeping_policy",
    "liveness",
    "request_limits",
    "shown_settings",
    "upkeep_policy",
    "wal_stores",
]


def flush_policies(settings: Settings) -> dict[str, FlushPolicy]:
    """When the segments of each profile are sealed."""
    wal = settings.wal
    return {
        profile: FlushPolicy(
            max_age_ms=own.flush_interval_ms,
            max_bytes=own.flush_bytes,
            max_uploads=wal.max_uploads,
            max_ahead=ahead,
            max_inflight_bytes=wal.max_inflight_bytes,
            answer_within_ms=wal.answer_within_ms,
        )
        # Quick storage: more than one being stored and one being committed only wait in line.
        for profile, own, ahead in (
            ("cost", wal.cost, wal.max_uploads),
            ("latency", wal.latency, LATENCY_AHEAD),
        )
    }


def liveness(settings: Settings) -> Liveness:
    broker = settings.broker
    if broker.session_timeout_ms < 4 * broker.heartbeat_interval_ms:
        raise Misconfigured(
            "broker.session_timeout_ms must be at least four times broker.heartbeat_interval_ms",
            session_timeout_ms=broker.session_timeout_ms,
            heartbeat_interval_ms=broker.heartbeat_interval_ms,
        )
    return Liveness(
        beat_s=broker.heartbeat_interval_ms / 1000, session_s=broker.session_timeout_ms / 1000
    )


def connection_limits(settings: Settings) -> ConnectionLimits:
    broker = settings.broker
    return ConnectionLimits(
        total=broker.max_connections,
        per_ip=broker.max_connections_per_ip,
        max_idle_s=broker.connections_max_idle_ms / 1000,
    )


def request_limits(settings: Settings) -> Limits:
    """What a client may ask of a broker."""
    own = settings.broker
    if own.max_inflight_bytes < own.socket_request_max_bytes:
        raise Misconfigured(
            "broker.max_inflight_bytes must be at least broker.socket_request_max_bytes, "
            "or the largest request never finds room",
            max_inflight_bytes=own.max_inflight_bytes,
            socket_request_max_bytes=own.socket_request_max_bytes,
        )
    return Limits(
        max_request_bytes=own.socket_request_max_bytes,
        max_message_bytes=own.message_max_bytes,
        max_fetch_bytes=own.fetch_max_bytes,
        max_control_bytes=own.max_control_bytes,
        max_requests_in_flight=own.max_requests_in_flight,
        max_inflight_bytes=own.max_inflight_bytes,
        busy_timeout_s=own.busy_timeout_ms / 1000,
        auto_create_topics=own.auto_create_topics_enable,
        default_partitions=own.num_partitions,
    )


def shown_settings(settings: Settings) -> dict[str, str]:
    """What DescribeConfigs shows of the broker beside its limits, by Kafka's names."""
    broker, groups = settings.broker, settings.groups
    shown = {
        "max.connections": broker.max_connections,
        "max.connections.per.ip": broker.max_connections_per_ip,
        "connections.max.idle.ms": broker.connections_max_idle_ms,
        "max.incremental.fetch.session.cache.slots": broker.max_fetch_sessions,
        "log.retention.check.interval.ms": broker.retention_check_interval_ms,
        "producer.id.expiration.ms": broker.producer_id_expiration_ms,
        "group.initial.rebalance.delay.ms": groups.initial_rebalance_delay_ms,
        "group.min.session.timeout.ms": groups.min_session_timeout_ms,
        "group.max.session.timeout.ms": groups.max_session_timeout_ms,
        "group.max.size": groups.max_size,
        "offset.metadata.max.bytes": groups.offset_metadata_max_bytes,
        "offsets.retention.minutes": groups.offsets_retention_minutes,
    }
    return {name: str(value) for name, value in shown.items()}


def housekeeping_policy(settings: Settings) -> HousekeepingPolicy:
    wal, broker = settings.wal, settings.broker
    return HousekeepingPolicy(
        reclaim=ReclaimPolicy(
            grace_ms=wal.grace_period_ms, evacuate_after_ms=wal.evacuate_after_ms
        ),
        reclaim_every_s=wal.reclaim_interval_ms / 1000,
        retention_every_s=broker.retention_check_interval_ms / 1000,
        producer_expiration_ms=broker.producer_id_expiration_ms,
    )


def group_limits(settings: Settings) -> GroupLimits:
    """What groups may ask for."""
    own = settings.groups
    if own.min_session_timeout_ms > own.max_session_timeout_ms:
        raise Misconfigured(
            "groups.min_session_timeout_ms must not be above groups.max_session_timeout_ms",
            min_session_timeout_ms=own.min_session_timeout_ms,
            max_session_timeout_ms=own.max_session_timeout_ms,
        )
    return GroupLimits(
        initial_rebalance_delay_ms=own.initial_rebalance_delay_ms,
        min_session_timeout_ms=own.min_session_timeout_ms,
        max_session_timeout_ms=own.max_session_timeout_ms,
        max_size=own.max_size,
        max_metadata_chars=own.offset_metadata_max_bytes,
        offsets_retention_ms=own.offsets_retention_minutes * 60_000,
    )


def upkeep_policy(settings: Settings) -> UpkeepPolicy:
    """How the tables are looked after."""
    own = settings.maintain
    return UpkeepPolicy(
        merge=MergePolicy(target_bytes=own.target_file_bytes, min_files=own.merge_min_files),
        snapshots=SnapshotPolicy(
            newest=own.snapshots_kept, hours=own.hourly_tags, days=own.daily_tags
        ),
        orphans=OrphanPolicy(grace_ms=own.orphan_grace_ms),
    )
