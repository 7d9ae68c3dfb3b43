"""Spark sessions for tests."""

import gc
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from lakestream_spark.spark.session import local_session
from lakestream_spark.table.iceberg import CatalogSpec

# pyspark leaves the sockets of `collect` and `foreachBatch` to the garbage collector.
ignore_sockets_of_spark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@contextmanager
def spark_session(
    catalog: CatalogSpec, *, master: str = "local[2]", more: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A session that sees the catalog; stopped, with nothing left for the next test to find."""
    session = local_session(catalog, master=master, more=more)
    try:
        yield session
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            session.stop()
            del session
            gc.collect()
