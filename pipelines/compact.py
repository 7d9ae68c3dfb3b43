"""spark-submit entry: move records from the WAL into the tables.

spark-submit [SPARK OPTIONS] pipelines/compact.py --data DIR_OR_URL [--conf FILE] [--topics PATTERN]
"""

import argparse
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession

from lakestream_spark.cli.compaction import checkpoint_folder, stopped_by_signals
from lakestream_spark.cli.jobs import compact_job, submitted_settings
from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.logs import configure
from lakestream_spark.spark.compact import drain, run


def main() -> None:
    """Compact with the session that spark-submit set up."""
    arguments = parse_arguments()
    settings = submitted_settings(arguments.data, arguments.conf)
    configure(level=settings.log.level, form=settings.log.format, context={"job": "compact"})
    spark = SparkSession.builder.appName("lakestream-compact").getOrCreate()
    stop = Event()
    try:
        with stopped_by_signals(stop), checkpoint_folder(settings) as folder:
            job = compact_job(settings, checkpoint=folder, topics=arguments.topics)
            done = (drain if arguments.trigger == "available-now" else run)(
                lambda: spark, job, stop
            )
        print(f"{done.rows} rows in {done.files} files, {done.commits} commits")
    except LakestreamError as error:
        raise SystemExit(f"lakestream: {error}") from None
    finally:
        spark.stop()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", metavar="DIR_OR_URL", help="where everything lies")
    parser.add_argument("--conf", type=Path, metavar="FILE", help="TOML file of settings")
    parser.add_argument("--topics", default="*", metavar="PATTERN", help="topics to compact")
    parser.add_argument("--trigger", choices=("continuous", "available-now"), default="continuous")
    return parser.parse_args()


if __name__ == "__main__":
    main()
