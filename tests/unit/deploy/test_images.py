"""deploy/docker: the Dockerfiles by their linter, and that they build what the tests test."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support import s3
from tests.support.deployment import DEPLOY, ROOT, ours

DOCKERFILES = sorted((DEPLOY / "docker").glob("*Dockerfile"))
IMAGES = (DEPLOY / "docker" / "Dockerfile").read_text()


def stage(name: str) -> str:
    """The lines of one stage."""
    found = re.search(rf"^FROM \S+ AS {name}\n(.*?)(?=^FROM |\Z)", IMAGES, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_hadolint_has_nothing_to_say(path):
    hadolint = Path(sys.prefix) / "bin" / "hadolint"
    done = subprocess.run([hadolint, "--no-color", path], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_images_are_those_that_compose_runs():
    built = {each["build"]["target"] for each in ours().values()}
    assert built == {"broker", "jobs"}
    assert all(stage(name) for name in built)


def test_a_broker_image_has_neither_spark_nor_java():
    assert '".[postgres]"' in stage("build-broker")
    assert "--from=build-broker" in stage("broker")
    assert not re.search("spark|jre|jdk", stage("broker").replace("lakestream_spark", ""))
    assert '".[postgres,spark]"' in stage("build-jobs")


def test_what_is_installed_are_extras_that_exist_and_versions_that_are_locked():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for named in re.findall(r'"\.\[([\w,]+)\]"', IMAGES):
        assert set(named.split(",")) <= set(extras)
    installs = re.findall(r"uv pip install .*", IMAGES)
    assert len(installs) == 2
    assert all("--constraint requirements.lock" in line for line in installs)
    uv = re.search(r"^UV_VERSION := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert uv is not None
    assert f"uv=={uv[1]}" in IMAGES


def test_the_python_and_the_java_are_those_of_the_tests():
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"FROM python:{version}-slim" in IMAGES or version != "3.11"
    assert "openjdk-17-jre-headless" in stage("jobs")


def test_the_s3_server_is_the_one_of_the_tests():
    text = (DEPLOY / "docker" / "s3.Dockerfile").read_text()
    assert f"go install {s3._MODULE}@{s3.VERSION}" in text
    assert f"/data/{s3.BUCKET}" in text


def test_everything_that_is_copied_is_sent_to_the_builder():
    ignore = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    sent = {line.removeprefix("!") for line in ignore if line.startswith("!")}
    copied = {
        word
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", IMAGES, re.MULTILINE)
        for word in line.split()
    }
    assert copied == sent
    assert all((ROOT / name).exists() for name in copied)


def test_the_jars_are_fetched_by_a_command_that_exists():
    (fetch,) = re.findall(r"^RUN python -m (\S+) (--\S+)$", stage("jobs"), re.MULTILINE)
    command = [sys.executable, "-m", fetch[0], fetch[1], "--not-this"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr == f"usage: python -m {fetch[0]} [{fetch[1]}]\n"
