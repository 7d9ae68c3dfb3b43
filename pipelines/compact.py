"""spark-submit entry: move what is acknowledged from the WAL into the tables.

spark-submit [SPARK OPTIONS] pipelines/compact.py --data DIR_OR_URL [--conf FILE]
"""

import argparse
import os
from pathlib import Path

from pyspark.sql import SparkSession

from lakestream_spark.cli.compact import compact_job
from lakestream_spark.settings import Entry, Settings, load
from lakestream_spark.spark.compact import drain
from lakestream_spark.spark.source import WalSource


def main() -> None:
    """Drain the WAL with the session that spark-submit set up."""
    arguments = parse_arguments()
    spark = SparkSession.builder.appName("lakestream-compact").getOrCreate()
    spark.dataSource.register(WalSource)
    try:
        batches = drain(spark, compact_job(settings_of(arguments), checkpoint=arguments.checkpoint))
        print(f"nothing left to compact after {batches} micro-batches")
    finally:
        spark.stop()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", metavar="DIR_OR_URL", help="where everything lies")
    parser.add_argument("--conf", type=Path, metavar="FILE", help="TOML file of settings")
    parser.add_argument(
        "--checkpoint", type=Path, metavar="DIR", help="folder on the driver's disk"
    )
    return parser.parse_args()


def settings_of(arguments: argparse.Namespace) -> Settings:
    data = arguments.data
    flags = [] if data is None else [Entry(key="data", value=data, origin="--data")]
    return load(environ=os.environ, flags=flags, conf=arguments.conf).settings


if __name__ == "__main__":
    main()
