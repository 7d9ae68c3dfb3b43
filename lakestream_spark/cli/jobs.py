"""What the jobs on tables need to know, made from the settings."""

from pathlib import Path

from lakestream_spark.settings import Settings
from lakestream_spark.settings.specs import catalog_spec, upkeep_policy, wal_stores
from lakestream_spark.spark.compact import CompactJob
from lakestream_spark.spark.due import CompactPolicy
from lakestream_spark.spark.maintain import MaintainJob


def compact_job(settings: Settings, *, checkpoint: Path, topics: str = "*") -> CompactJob:
    """The compaction of an installation."""
    own = settings.compact
    return CompactJob(
        metadata_url=settings.metadata.url,
        stores=wal_stores(settings),
        catalog=catalog_spec(settings),
        checkpoint=checkpoint,
        topics=topics,
        policy=CompactPolicy(
            batch_bytes=own.batch_bytes,
            task_bytes=own.task_bytes,
            file_bytes=own.file_bytes,
            poll_s=own.poll_interval_ms / 1000,
            session_s=own.session_timeout_ms / 1000,
        ),
    )


def maintain_job(
    settings: Settings, *, topics: str = "*", every_s: float | None = None
) -> MaintainJob:
    """The maintenance of an installation; the settings say how often unless the caller does."""
    return MaintainJob(
        metadata_url=settings.metadata.url,
        catalog=catalog_spec(settings),
        topics=topics,
        every_s=settings.maintain.interval_ms / 1000 if every_s is None else every_s,
        policy=upkeep_policy(settings),
    )
