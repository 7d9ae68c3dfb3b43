"""What works on one host only is refused where Spark runs on others.

What always holds: a refusal is one sentence that names the setting; it comes before the first task.
"""

import re
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.table.places import canonical

WAREHOUSE: Final = "catalog.warehouse"
STORE_SETTINGS: Final = {"cost": "store.url", "latency": "wal.latency.url"}
"""Where the store of each profile is named."""
_ON_THIS_HOST: Final = re.compile(
    r"local($|\W)|local-cluster\[|spark://(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$"
)


def refuse_remote_sqlite(spark: SparkSession, metadata_url: str) -> None:
    """Raises `Misconfigured` when tasks would look for the metadata on their own disks."""
    master = _master(spark)
    if metadata_url.startswith("sqlite") and not master.startswith("local"):
        raise Misconfigured(
            "metadata in SQLite is for one host: with a Spark master elsewhere use PostgreSQL "
            "(metadata.url = postgresql://...)",
            master=master,
        )


def refuse_remote_disks(spark: SparkSession, places: Mapping[str, str]) -> None:
    """Raises `Misconfigured` when tasks would read or write one of these places, by setting, on
    their own disks."""
    refuse_disks(_master(spark), places)


def refuse_disks(master: str, places: Mapping[str, str]) -> None:
    if _ON_THIS_HOST.match(master):
        return
    for setting, place in places.items():
        if canonical(place).startswith(("/", "file:")):
            raise Misconfigured(
                f"{setting} is a folder, which is for one host: with a Spark master elsewhere use "
                f"a bucket that all its workers reach ({setting} = s3://...)",
                master=master,
                place=place,
            )


def _master(spark: SparkSession) -> str:
    return spark.conf.get("spark.master", "local") or "local"
