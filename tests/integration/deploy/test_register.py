"""deploy/databricks: a topic's Delta table by its name, in a real Spark with Delta's catalog."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakestream_spark.cli.connect import place_of
from tests.support.deployment import DEPLOY, load_script
from tests.support.embedded import catalog_spec, lake_settings
from tests.support.frugal_spark import frugal
from tests.support.spark import ignore_sockets_of_spark, spark_session
from tests.support.verified import TOPIC, Platform

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    ignore_sockets_of_spark,
]
# Spark's own catalog stands for one of Unity's.
CATALOG = "spark_catalog"


def test_what_is_committed_later_is_seen_by_the_name_that_was_registered(tmp_path: Path) -> None:
    register = load_script(DEPLOY / "databricks" / "register.py").register
    # A quote in the path: names of folders are anybody's.
    platform = Platform(folder=tmp_path / "it's here")
    platform.send(20)
    platform.commit()
    more = {"spark.sql.warehouse.dir": str(tmp_path / "spark")}
    with spark_session(catalog_spec(platform.folder), more=more) as spark:
        frugal(spark)
        place = place_of(lake_settings(platform.folder), TOPIC)
        name = register(spark, place, CATALOG)
        assert name == "`spark_catalog`.`streams`.`orders`"
        assert rows(spark, name) == 20
        platform.send(5)
        platform.commit()
        assert register(spark, place, CATALOG) == name
        assert rows(spark, name) == 25
        (told,) = spark.sql(f"DESCRIBE DETAIL {name}").select("format", "location").collect()
        assert (told[0], told[1].split("orders-")[1]) == (
            "delta",
            place.location.split("orders-")[1],
        )
        spark.sql(f"DROP TABLE {name}")
    assert len(platform.table().scan().to_arrow()) == 25, "external: its files are not the name's"


def rows(spark: SparkSession, name: str) -> int:
    return int(spark.sql(f"SELECT count(*) FROM {name}").collect()[0][0])
