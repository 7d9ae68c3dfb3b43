"""What `make` says to somebody who lacks what it needs: one sentence with what to do."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def make(folder: Path, *words: str, **environ: str) -> list[str]:
    """What a target that must fail says, apart from make's own last line."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, folder)
    done = subprocess.run(
        [shutil.which("make") or "make", *words],
        cwd=folder,
        env={"HOME": str(folder), "PATH": os.environ["PATH"], **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    said = done.stderr.splitlines()
    assert said[-1].startswith("make: ***")
    return said[:-1]


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize("target", ["run", "test"])
def test_without_java_nothing_is_set_up(tmp_path: Path, target: str) -> None:
    (said,) = make(tmp_path, target, JAVA_HOME=str(tmp_path / "nowhere"))
    assert said.startswith("Java 17 or newer is needed: install it with `apt-get install")
    assert not (tmp_path / ".venv").exists()


def test_make_test_checks_the_code_and_runs_all_but_the_long_tests() -> None:
    """Told by make itself, which runs nothing: a test that ran all tests would never end."""
    make = [shutil.which("make") or "make", "--dry-run", "test"]
    told = subprocess.run(make, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    steps = ["ruff check .", "ruff format --check .", "bin/mypy", "bin/lint-imports"]
    assert [step for step in steps if step not in told] == []
    assert '-m "not slow"' in told.splitlines()[-1]


def test_an_old_java_is_not_enough(tmp_path: Path) -> None:
    program(tmp_path, "bin/java", "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2")
    (said,) = make(tmp_path, "run", JAVA_HOME=str(tmp_path))
    assert said.startswith("Java 17 or newer is needed")


def test_an_old_python_is_not_enough(tmp_path: Path) -> None:
    own = tmp_path / "programs"
    # An old Python finds that it is not new enough, and nothing else is on the path.
    program(own, "python3", "exit 1")
    (own / "date").symlink_to(shutil.which("date") or "/bin/date")
    (said,) = make(tmp_path, "setup", PATH=str(own))
    assert said.startswith("Python 3.11, 3.12 or 3.13 is needed: install it with `apt-get install")
    assert not (tmp_path / ".venv").exists()
