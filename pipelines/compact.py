"""spark-submit entry: move records from the WAL into the tables.

spark-submit [SPARK OPTIONS] pipelines/compact.py --data DIR_OR_URL [--conf FILE] [--topics PATTERN]
"""

import click

from lakestream_spark.cli.compact import compact_and_tell, compact_options
from lakestream_spark.cli.exits import run_entry
from lakestream_spark.cli.options import Loaded
from lakestream_spark.spark.session import submitted_session


@click.command()
@compact_options
def compact(loaded: Loaded, topics: str, trigger: str) -> None:
    """Move records from the WAL into the tables, with the session of spark-submit."""
    with submitted_session("lakestream-compact") as session:
        compact_and_tell(loaded, topics, trigger, session)


if __name__ == "__main__":
    run_entry(compact, name="compact.py")
