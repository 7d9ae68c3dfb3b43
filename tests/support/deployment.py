"""What lies under deploy/, as tests look at it."""

import importlib.util
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import click
import yaml

from lakestream_spark.cli.group import lakestream

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
SECRETS_AT: Final = "/run/secrets/"


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text()))


def ours() -> dict[str, dict[str, Any]]:
    """The services of compose.yaml that run the command `lakestream`."""
    services: Mapping[str, dict[str, Any]] = compose()["services"]
    images = ("lakestream-broker", "lakestream-jobs")
    return {name: each for name, each in services.items() if each["image"] in images}


def make_secrets(folder: Path) -> Path:
    """The secrets, made as the README of deploy/ says."""
    script = DEPLOY / "docker" / "make_secrets.sh"
    subprocess.run(["sh", str(script), str(folder)], check=True)
    return folder


def environment(service: Mapping[str, Any], secrets: Path) -> dict[str, str]:
    """What the service's process would see, its secrets in a folder of the test's own."""
    given: Mapping[str, str] = service["environment"]
    return {name: value.replace(SECRETS_AT, f"{secrets}/") for name, value in given.items()}


def check_command(words: list[str], group: click.Command = lakestream) -> None:
    """Let the command line read the words without running anything; raises what is wrong."""
    context = group.make_context("lakestream", list(words))
    if isinstance(group, click.Group):
        rest = [*context._protected_args, *context.args]
        name, command, rest = group.resolve_command(context, rest)
        assert command is not None, name
        check_command(rest, command)


def load_script(path: Path) -> ModuleType:
    """A file that is no module of a package."""
    spec = importlib.util.spec_from_file_location(f"deployed_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
