"""Reading in Spark by settings: `read`, `view`, `session`, and the data source as Spark finds it.

The settings come as those of the command line do: from the arguments or options `data` and `conf`,
else from the environment. Spark loads this module to find out which data sources there are, so what
is slow to load is loaded when it is used.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lakestream_spark.spark.reading.options import ReadOptions
from lakestream_spark.spark.reading.source import LakestreamSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakestream_spark.settings import Settings
    from lakestream_spark.spark.reading.installation import Installation


class DefaultSource(LakestreamSource):
    """The data source `lakestream` of an installation that the settings name."""

    @staticmethod
    def installation(options: ReadOptions) -> "Installation":
        return installation(options.data, options.conf)


def read(
    spark: "SparkSession",
    topic: str,
    *,
    columns: Sequence[str] | None = None,
    data: str | None = None,
    conf: str | None = None,
) -> "DataFrame":
    """One DataFrame of the topic's table and its WAL tail.

    It holds every record that is acknowledged when this is called, each once; executed later, or
    again, it gives the same rows. Call it again for newer ones. Spark prunes columns of the table
    by itself, but not of the tail: name those you need when the tail is long.
    """
    from lakestream_spark.spark.reading.union import union

    return union(spark, installation(data, conf), topic, columns)


def view(
    spark: "SparkSession",
    topic: str,
    name: str | None = None,
    *,
    data: str | None = None,
    conf: str | None = None,
) -> "DataFrame":
    """`read`, and a temporary view of it for SQL, named as the topic's table unless a name is
    given."""
    from lakestream_spark.table.layout import table_name

    frame = read(spark, topic, data=data, conf=conf)
    frame.createOrReplaceTempView(name or table_name(topic))
    return frame


def session(
    *, data: str | None = None, conf: str | None = None, more: Mapping[str, str] | None = None
) -> "SparkSession":
    """A local Spark session with everything needed to read; `more` are settings of Spark."""
    from lakestream_spark.settings.storage import catalog_spec
    from lakestream_spark.spark.session import LOG_OPTION, local_session

    settings = _settings(data, conf)
    # Queries compute in the JVM, which compaction does not: it compiles as Java does by itself.
    own = {"spark.driver.extraJavaOptions": LOG_OPTION, **(more or {})}
    return local_session(catalog_spec(settings), master=settings.compact.master, more=own)


def installation(data: str | None, conf: str | None) -> "Installation":
    """Where everything lies; raises `Misconfigured` when that cannot be told."""
    from lakestream_spark.settings.installation import installation_of

    return installation_of(_settings(data, conf))


def _settings(data: str | None, conf: str | None) -> "Settings":
    from lakestream_spark.settings import Entry, load

    flags = [] if data is None else [Entry(key="data", value=data, origin="data")]
    return load(environ=os.environ, flags=flags, conf=None if conf is None else Path(conf)).settings
