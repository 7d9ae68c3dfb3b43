"""spark-submit entry: look after the tables: merge, expire, collect, mirror.

spark-submit --properties-file pipelines/spark.conf \\
    pipelines/maintain.py --data DIR_OR_URL [--conf FILE] [--once]
"""

import click

from lakestream_spark.cli.exits import run_entry
from lakestream_spark.cli.maintain import maintain_and_tell, maintain_options
from lakestream_spark.cli.options import Loaded
from lakestream_spark.settings.storage import catalog_spec
from lakestream_spark.spark.session import submitted_session


@click.command()
@maintain_options
def maintain(loaded: Loaded, topics: str, every_s: float | None, once: bool) -> None:
    """Merge small files, expire snapshots, collect orphans, mirror Delta, apply retention.

    Runs until it is told to stop, with the session of spark-submit.
    """
    with submitted_session("lakestream-maintain", catalog_spec(loaded.settings)) as session:
        maintain_and_tell(loaded, topics, every_s, once, session)


if __name__ == "__main__":
    run_entry(maintain, name="maintain.py")
