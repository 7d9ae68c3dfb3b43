"""spark-submit entry: look after the tables: merge, expire, collect, mirror.

spark-submit [SPARK OPTIONS] pipelines/maintain.py --data DIR_OR_URL [--conf FILE] [--once]
"""

import argparse
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession

from lakestream_spark.cli.compaction import stopped_by_signals
from lakestream_spark.cli.jobs import maintain_job, submitted_settings
from lakestream_spark.cli.maintain import refuse_failures, summary
from lakestream_spark.core.logs import configure
from lakestream_spark.spark.maintain import maintain_once, run_maintenance


def main() -> None:
    """Maintain with the session that spark-submit set up."""
    arguments = parse_arguments()
    settings = submitted_settings(arguments.data, arguments.conf)
    configure(level=settings.log.level, form=settings.log.format, context={"job": "maintain"})
    job = maintain_job(settings, topics=arguments.topics, every_s=arguments.every)
    spark = SparkSession.builder.appName("lakestream-maintain").getOrCreate()
    stop = Event()
    try:
        with stopped_by_signals(stop):
            if not arguments.once:
                print(f"{run_maintenance(lambda: spark, job, stop)} rounds")
                return
            reports = maintain_once(lambda: spark, job, stop)
        print("\n".join(summary(reports)))
        refuse_failures(reports)
    finally:
        spark.stop()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", metavar="DIR_OR_URL", help="where everything lies")
    parser.add_argument("--conf", type=Path, metavar="FILE", help="TOML file of settings")
    parser.add_argument("--topics", default="*", metavar="PATTERN", help="topics to look after")
    parser.add_argument("--every", type=float, default=60.0, metavar="S", help="between two rounds")
    parser.add_argument("--once", action="store_true", help="one round, then end")
    return parser.parse_args()


if __name__ == "__main__":
    main()
