"""deploy/databricks: the bundle by the models of Databricks' own package, and its commands."""

import os
import re
import subprocess
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from databricks.bundles.jobs import Job
from packaging.requirements import Requirement

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.settings.sources import variable
from lakestream_spark.settings.tree import KEYS
from lakestream_spark.spark.jars import COORDINATES, S3_COORDINATES
from tests.support.deployment import DEPLOY, ROOT, check_command, load_script

FOLDER = DEPLOY / "databricks"
BUNDLE: dict[str, Any] = yaml.safe_load((FOLDER / "databricks.yml").read_text())
JOBS: dict[str, Any] = BUNDLE["resources"]["jobs"]
REGISTER = load_script(FOLDER / "register.py")
PARTS = {"bundle", "variables", "sync", "artifacts", "resources", "targets"}


def tasks() -> list[dict[str, Any]]:
    return [task for job in JOBS.values() for task in job["tasks"]]


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_one_for_databricks(name):
    job = Job.from_dict(JOBS[name])
    assert job.name == f"lakestream-{name}"


def test_a_field_that_databricks_does_not_know_would_be_noticed():
    with pytest.raises(ValueError, match="Unexpected field 'entry'"):
        Job.from_dict(JOBS["compact"] | {"tasks": [{"task_key": "x", "entry": "y"}]})


def test_the_bundle_has_the_parts_of_one_and_every_variable_is_declared():
    assert set(BUNDLE) == PARTS
    used = set(re.findall(r"\$\{var\.(\w+)\}", (FOLDER / "databricks.yml").read_text()))
    assert used == set(BUNDLE["variables"])
    assert [name for name, target in BUNDLE["targets"].items() if target.get("default")] == ["dev"]


def test_libraries_are_the_wheel_and_the_extras_that_bring_no_spark():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    wanted = {str(Requirement(text)) for name in ("jobs", "postgres") for text in extras[name]}
    assert not {Requirement(text).name for text in wanted} & {"pyspark", "delta-spark"}
    for task in tasks():
        wheel, *packages = task["libraries"]
        assert wheel == {"whl": "../../dist/*.whl"}
        assert {str(Requirement(each["pypi"]["package"])) for each in packages} == wanted


@pytest.mark.parametrize("task", tasks(), ids=lambda task: task["task_key"])
def test_a_task_runs_a_file_of_this_repository_that_takes_its_arguments(task):
    own = task["spark_python_task"]
    path = (FOLDER / own["python_file"]).resolve()
    synced = [(FOLDER / name).resolve() for name in BUNDLE["sync"]["paths"]]
    assert any(path.is_relative_to(folder) for folder in synced)
    script = load_script(path)
    command = script.main if hasattr(script, "main") else getattr(script, path.stem)
    check_command(own.get("parameters", []), command)


def test_upkeep_is_scheduled_and_ends():
    job = JOBS["maintain"]
    assert job["schedule"] == {"quartz_cron_expression": "0 0 * * * ?", "timezone_id": "UTC"}
    (task,) = job["tasks"]
    assert task["spark_python_task"]["parameters"] == ["--once"]


def test_upkeep_has_the_extensions_of_iceberg_and_its_jars_before_spark_starts(tmp_path):
    (cluster,) = JOBS["maintain"]["job_clusters"]
    own, shared = cluster["new_cluster"], JOBS["compact"]["job_clusters"][0]["new_cluster"]
    assert {key: own[key] for key in shared} == shared
    assert "IcebergSparkSessionExtensions" in own["spark_conf"]["spark.sql.extensions"]
    (script,) = own["init_scripts"]
    destination = script["workspace"]["destination"].removeprefix("${workspace.file_path}/")
    # Files are synced below the folder that all of `sync.paths` have in common.
    assert (ROOT / destination).samefile(FOLDER / "jars.sh")
    fetched = jars_that_are_fetched(tmp_path)
    assert fetched <= {*COORDINATES, *S3_COORDINATES}
    assert {each.split(":")[0] for each in fetched} == {"org.apache.iceberg", "org.postgresql"}


def jars_that_are_fetched(folder: Path) -> set[str]:
    """Their coordinates, by the script run against a repository of this machine."""
    maven, jars = folder / "maven", folder / "jars"
    jars.mkdir()
    for coordinate in (*COORDINATES, *S3_COORDINATES):
        group, artifact, version = coordinate.split(":")
        path = maven / group.replace(".", "/") / artifact / version / f"{artifact}-{version}.jar"
        path.parent.mkdir(parents=True)
        path.write_text(coordinate)
    places = {"JARS_MAVEN": maven.as_uri(), "JARS_FOLDER": str(jars)}
    subprocess.run([FOLDER / "jars.sh"], env={**os.environ, **places}, check=True)
    return {path.read_text() for path in jars.iterdir()}


class Asked:
    """Stands for a Spark session, and keeps what is asked of it."""

    def __init__(self) -> None:
        self.sql_texts: list[str] = []

    def sql(self, text: str) -> None:
        self.sql_texts.append(text)


def place(**changes: object) -> SimpleNamespace:
    own = {
        "topic": "orders",
        "identifier": ("streams", "orders"),
        "location": "s3://lake/warehouse/streams/orders-1",
        "has_delta": True,
    }
    return SimpleNamespace(**{**own, **changes})


def test_the_delta_table_of_a_topic_becomes_an_external_table():
    spark = Asked()
    assert REGISTER.register(spark, place(), "main") == "`main`.`streams`.`orders`"
    schema, table = spark.sql_texts
    assert schema == "CREATE SCHEMA IF NOT EXISTS `main`.`streams`"
    assert table == (
        "CREATE TABLE IF NOT EXISTS `main`.`streams`.`orders` "
        "USING DELTA LOCATION 's3://lake/warehouse/streams/orders-1'"
    )


def test_odd_names_and_places_are_quoted():
    spark = Asked()
    odd = place(identifier=("sales-2026", "a`b"), location="s3://lake/it's")
    assert REGISTER.register(spark, odd, "my-catalog") == "`my-catalog`.`sales-2026`.`a``b`"
    assert spark.sql_texts[1].endswith(r"USING DELTA LOCATION 's3://lake/it\'s'")


def test_a_topic_without_a_delta_log_is_told_what_to_do():
    spark = Asked()
    with pytest.raises(Misconfigured, match=r"topic alter orders .*formats=iceberg,delta"):
        REGISTER.register(spark, place(has_delta=False), "main")
    assert spark.sql_texts == []


def test_the_settings_are_variables_of_the_cluster_and_the_secret_is_a_secret():
    known = {variable(key) for key in KEYS}
    for job in JOBS.values():
        (cluster,) = job["job_clusters"]
        told = cluster["new_cluster"]["spark_env_vars"]
        assert set(told) <= known | {"JARS_MAVEN"}
        assert re.fullmatch(r"\{\{secrets/\w+/\w+\}\}", told["LAKESTREAM_METADATA__URL"])
