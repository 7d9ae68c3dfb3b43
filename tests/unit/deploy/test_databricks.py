"""deploy/databricks: the bundle by the models of Databricks' own package, and its commands."""

import re
import tomllib
from typing import Any

import pytest
import yaml
from databricks.bundles.jobs import Job
from packaging.requirements import Requirement

from lakestream_spark.settings.sources import variable
from lakestream_spark.settings.tree import KEYS
from tests.support.deployment import DEPLOY, ROOT, check_command, load_script

FOLDER = DEPLOY / "databricks"
BUNDLE: dict[str, Any] = yaml.safe_load((FOLDER / "databricks.yml").read_text())
JOBS: dict[str, Any] = BUNDLE["resources"]["jobs"]
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


def test_the_settings_are_variables_of_the_cluster_and_the_secret_is_a_secret():
    known = {variable(key) for key in KEYS}
    for job in JOBS.values():
        (cluster,) = job["job_clusters"]
        told = cluster["new_cluster"]["spark_env_vars"]
        assert set(told) <= known
        assert re.fullmatch(r"\{\{secrets/\w+/\w+\}\}", told["LAKESTREAM_METADATA__URL"])
