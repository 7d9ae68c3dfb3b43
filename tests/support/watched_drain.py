"""A drain without a JVM that a person watches: `python -m tests.support.watched_drain FOLDER`."""

import sys
from pathlib import Path

from lakestream_spark.cli.progress import CompactView, shown
from lakestream_spark.core.logs import configure
from tests.support.embedded import lake_settings
from tests.support.sparkless import SparklessCompaction


def main(folder: Path) -> None:
    log = lake_settings(folder).log
    configure(level=log.level, form=log.format, context={"job": "drain"})
    with shown(log, CompactView(drains=True)):
        compaction = SparklessCompaction(folder)
        compaction.run_until_drained()
        compaction.close()
    print("drained")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
