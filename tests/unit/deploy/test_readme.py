"""deploy/README.md: what it tells to type names what is there, by the parser of each program."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from lakestream_spark.cli.group import lakestream
from tests.support.deployment import DEPLOY, ROOT, check_command, load_script
from tests.support.readme import fenced, words

README = DEPLOY / "README.md"
BUNDLE = yaml.safe_load((DEPLOY / "databricks" / "databricks.yml").read_text())
COMPOSE_UP = {"--build", "--detach", "--wait"}
"""What is typed of the options of `docker compose up`; Docker is not at hand to ask."""


class Typed(NamedTuple):
    """A command, and the folder in which it is typed."""

    folder: Path
    words: list[str]


def commands() -> Iterator[Typed]:
    for block, _ in fenced(README):
        folder = ROOT
        for command in block.commands:
            own = words(command)
            if own[0] == "cd":
                folder /= own[1]
            else:
                yield Typed(folder, own)
    for text in re.findall(r"`(lakestream [^`]+)`", README.read_text(encoding="utf-8")):
        yield Typed(ROOT, text.split())


@pytest.mark.parametrize("typed", list(commands()), ids=lambda typed: " ".join(typed.words)[:60])
def test_a_command_names_what_is_there(typed: Typed) -> None:
    match typed.words:
        case ["lakestream", *rest]:
            check_command(rest, lakestream)
        case ["python", script, *rest]:
            check_command(rest, load_script(typed.folder / script).main)
        case ["docker", "compose", "up", *rest]:
            assert set(rest) <= COMPOSE_UP
            assert (typed.folder / "compose.yaml").is_file()
        case ["databricks", "secrets", *_]:
            assert_secret(typed.words)
        case ["databricks", "bundle", *rest]:
            assert (typed.folder / "databricks.yml").is_file()
            assert_bundle(rest)
        case [script]:
            assert os.access(typed.folder / script, os.X_OK)
        case _:
            raise AssertionError(f"nobody checks {typed.words}")


def assert_secret(typed: list[str]) -> None:
    """The scope and the key are those that the bundle reads."""
    (used,) = set(
        re.findall(
            r"\{\{secrets/([^}]+)\}\}",
            (README.parent / "databricks" / "databricks.yml").read_text(),
        )
    )
    assert "/".join(typed[3:]) in (used, used.partition("/")[0])


def assert_bundle(typed: list[str]) -> None:
    """`deploy`, or `run` and a job; then pairs of an option and its value."""
    jobs = BUNDLE["resources"]["jobs"]
    action, *rest = typed
    job = rest.pop(0) if action == "run" else None
    assert action in ("deploy", "run")
    assert job is None or job in jobs
    for option, value in zip(rest[::2], rest[1::2], strict=True):
        name = value.partition("=")[0]
        match option:
            case "--target":
                assert name in BUNDLE["targets"]
            case "--var":
                assert name in BUNDLE["variables"]
            case "--params":
                assert name in {each["name"] for each in jobs[job]["parameters"]}
            case _:
                raise AssertionError(f"there is no option {option}")


def test_the_folders_of_its_table_are_there() -> None:
    linked = re.findall(r"\]\(([^)]+)\)", README.read_text(encoding="utf-8"))
    assert [link for link in linked if not (DEPLOY / link).exists()] == []
