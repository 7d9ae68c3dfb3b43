"""A local Spark session that sees the stream tables through the same catalog as pyiceberg."""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final, TypeAlias

from pyspark.sql import SparkSession

from lakestream_spark.core.logs import event
from lakestream_spark.spark.catalogs import catalog_conf, is_on_s3
from lakestream_spark.spark.jars import jar_paths, s3_jar_paths
from lakestream_spark.spark.jvm import jvm_options
from lakestream_spark.spark.pools import FAIR
from lakestream_spark.spark.source import WalSource
from lakestream_spark.table.iceberg import CatalogSpec

Session: TypeAlias = Callable[[], SparkSession]
"""Asked for when something is to be done, and the same each time."""

_log: Final = logging.getLogger(__name__)
_LOOPBACK: Final = "127.0.0.1"
_UI_ADDRESS: Final = "SPARK_LOCAL_IP"
"""The only way to tell Spark where its pages listen; without it, everywhere."""
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
LOG_OPTION: Final = f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"


def local_session(
    catalog: CatalogSpec,
    *,
    master: str = "local[2]",
    ui_port: int | None = None,
    more: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session in this process, with the jars of the cache and our data source.

    Spark's own pages are shown on this host only, at `ui_port` if there is one, 0 for a free one.
    `more` are settings of Spark that outrank ours.
    """
    if ui_port is not None:
        os.environ.setdefault(_UI_ADDRESS, _LOOPBACK)
    # Workers run what the driver runs: the `python3` of the PATH may know none of our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("lakestream")
    conf = {
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.extraJavaOptions": " ".join([LOG_OPTION, *jvm_options()]),
        "spark.jars": ",".join(map(str, [*jar_paths(), *_jars_for(catalog)])),
        "spark.python.daemon.module": "lakestream_spark.spark.daemon",
        # The default runs a `chmod` for every file of a checkpoint.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing."
            "FileSystemBasedCheckpointFileManager"
        ),
        **ui_conf(ui_port),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
            "io.delta.sql.DeltaSparkSessionExtension"
        ),
        # Without it Spark refuses Delta tables that are named by their path.
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        **FAIR,
        **catalog_conf(catalog),
        **(more or {}),
    }
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.dataSource.register(WalSource)
    return session


def ui_conf(port: int | None) -> Mapping[str, str]:
    """Spark's pages: none, or to look at only, since nobody has to say who he is."""
    if port is None:
        return {"spark.ui.enabled": "false"}
    return {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.ui.killEnabled": "false",
    }


def _jars_for(catalog: CatalogSpec) -> list[Path]:
    """What this catalog's tables need beside; compaction goes on without it."""
    if not is_on_s3(catalog):
        return []
    found = s3_jar_paths()
    if not found:
        sentence = "Spark cannot read tables on S3: `python -m lakestream_spark.spark.jars --s3`"
        event(_log, logging.WARNING, f"{sentence} fetches what it lacks, once")
    return found


@contextmanager
def session_when_asked(
    catalog: CatalogSpec, *, master: str, ui_port: int | None = None
) -> Iterator[Session]:
    """A function that starts a local session when it is first called, whoever calls; the session
    is stopped when the block ends."""
    started: list[SparkSession] = []
    lock = Lock()

    def session() -> SparkSession:
        with lock:
            if not started:
                event(_log, logging.INFO, "Spark starts", master=master)
                spark = local_session(catalog, master=master, ui_port=ui_port)
                started.append(spark)
                ui = spark.sparkContext.uiWebUrl
                shown = {} if ui is None else {"ui": ui}
                event(_log, logging.INFO, "Spark runs", master=master, **shown)
            return started[0]

    try:
        yield session
    finally:
        for spark in started:
            spark.stop()


@contextmanager
def submitted_session(name: str, catalog: CatalogSpec | None = None) -> Iterator[Session]:
    """The session that spark-submit set up; it is stopped when the block ends.

    The catalog is told to it, except for what spark-submit was told already.
    """
    spark = SparkSession.builder.appName(name).getOrCreate()
    told = {} if catalog is None else catalog_conf(catalog)
    for key, value in told.items():
        if spark.conf.get(key, None) is None:
            spark.conf.set(key, value)
    try:
        yield lambda: spark
    finally:
        spark.stop()
