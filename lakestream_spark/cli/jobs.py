"""What the jobs on tables need to know, made from the settings."""

import os
from pathlib import Path

from lakestream_spark.settings import Entry, Settings, load
from lakestream_spark.settings.specs import catalog_spec, wal_stores
from lakestream_spark.spark.compact import CompactJob
from lakestream_spark.spark.due import CompactPolicy
from lakestream_spark.spark.maintain import MaintainJob


def submitted_settings(data: str | None, conf: Path | None) -> Settings:
    """The settings of a job that spark-submit started with these flags."""
    flags = [] if data is None else [Entry(key="data", value=data, origin="--data")]
    return load(environ=os.environ, flags=flags, conf=conf).settings


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


def maintain_job(settings: Settings, *, topics: str = "*", every_s: float = 60.0) -> MaintainJob:
    """The maintenance of an installation."""
    return MaintainJob(
        metadata_url=settings.metadata.url,
        catalog=catalog_spec(settings),
        topics=topics,
        every_s=every_s,
    )
