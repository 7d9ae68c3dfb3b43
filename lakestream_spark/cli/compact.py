"""`lakestream compact`: move what is acknowledged from the WAL into the tables."""

from pathlib import Path
from tempfile import mkdtemp

import click

from lakestream_spark.app import catalog_spec, wal_stores
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.settings import Settings
from lakestream_spark.spark.compact import CompactJob, drain
from lakestream_spark.spark.session import local_session


def compact_job(settings: Settings, *, checkpoint: Path | None = None) -> CompactJob:
    """The compaction of an installation; a lost checkpoint costs a re-read and nothing else."""
    return CompactJob(
        metadata_url=settings.metadata.url,
        stores=wal_stores(settings),
        catalog=catalog_spec(settings),
        checkpoint=checkpoint or Path(mkdtemp(prefix="lakestream-checkpoint-")),
    )


@click.command()
@settings_options
def compact(loaded: Loaded) -> None:
    """Move everything acknowledged so far into the tables, then end."""
    job = compact_job(loaded.settings)
    spark = local_session(job.catalog)
    try:
        done = drain(spark, job)
    finally:
        spark.stop()
    click.echo(f"nothing left to compact: {done.rows} rows in {done.files} files")
