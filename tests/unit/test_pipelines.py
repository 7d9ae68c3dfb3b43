"""pipelines/: short entries for spark-submit that say what they take without starting Spark."""

from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from lakestream_spark.spark import session
from lakestream_spark.spark.jars import COORDINATES, S3_COORDINATES, SHIPPED_WITH_SPARK
from tests.support.deployment import ROOT, check_command, load_script
from tests.support.embedded import catalog_spec
from tests.support.standalone_spark import spark_conf

ENTRIES = sorted((ROOT / "pipelines").glob("*.py"))
CALLED = {
    "compact": ["--data", "s3://b/lake", "--topics", "orders*", "--trigger", "available-now"],
    "maintain": ["--data", "s3://b/lake", "--once"],
    "silver": ["--data", "s3://b/lake", "--checkpoint", "c", "--trigger", "available-now"],
    "verify": ["orders", "--data", "s3://b/lake", "--json"],
}


def test_every_entry_is_called_here():
    assert [path.stem for path in ENTRIES] == sorted(CALLED)


class Builder:
    """Stands for Spark's own, and keeps what it is told."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def config(self, key: str, value: str) -> "Builder":
        self.told[key] = value
        return self

    def named(self, _: str) -> "Builder":
        return self

    master = appName = named  # noqa: N815 - as Spark calls it

    def getOrCreate(self) -> Mock:  # noqa: N802 - as Spark calls it
        return Mock()


def test_the_settings_for_spark_submit_are_those_of_our_own_sessions(tmp_path, monkeypatch):
    own = Builder()
    monkeypatch.setattr(session, "SparkSession", Mock(builder=own))
    monkeypatch.setattr(session, "jar_paths", list)
    monkeypatch.setattr(session, "jvm_options", list)
    session.local_session(catalog_spec(tmp_path))
    told = spark_conf()
    assert told.pop("spark.jars.packages").split(",") == [*COORDINATES, *S3_COORDINATES]
    assert told.pop("spark.jars.excludes").split(",") == [*SHIPPED_WITH_SPARK]
    assert set(told) == {"spark.sql.extensions", "spark.sql.catalog.spark_catalog"}
    assert {key: own.told[key] for key in told} == told


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_is_short_and_helps(path):
    assert len(path.read_text().splitlines()) <= 60
    command = getattr(load_script(path), path.stem)
    done = CliRunner().invoke(command, ["--help"])
    assert done.exit_code == 0
    assert "--data" in done.output
    check_command(CALLED[path.stem], command)
