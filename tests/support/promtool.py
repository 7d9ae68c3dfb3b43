"""Prometheus' own tool for its files, built once with Go into the user's cache.

Without Go the tests that need it are skipped and the summary says so; in CI that is a failure.
"""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, NoReturn

import pytest

from tests.support.fetching import cache_folder, one_at_a_time, run_patiently

VERSION: Final = "v0.315.0"
_MODULE: Final = "github.com/prometheus/prometheus"
# What finds targets in clouds is most of the program, and nobody here asks for it.
_WITHOUT_CLOUDS: Final = "remove_all_sd"


def promtool(*words: object) -> subprocess.CompletedProcess[str]:
    """What the tool says."""
    command = [str(find_or_build()), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def find_or_build() -> Path:
    """The tool from the cache, or built into the cache."""
    cached = cache_folder() / "bin" / f"promtool-{VERSION}"
    if cached.exists():
        return cached
    go = shutil.which("go")
    if go is None:
        _not_available(
            "Go is missing: install it from https://go.dev/dl to check Prometheus' files"
        )
    with one_at_a_time(cached.parent):
        if not cached.exists():
            _build(go, cached)
    return cached


def _build(go: str, cached: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cached.parent) as scratch:
        # `go install` refuses a module that replaces others, as this one does.
        module = json.loads(_go(go, "mod", "download", "-json", f"{_MODULE}@{VERSION}", at=scratch))
        built = Path(scratch) / "promtool"
        flags = ("-tags", _WITHOUT_CLOUDS, "-o", str(built))
        _go(go, "build", *flags, "./cmd/promtool", at=module["Dir"])
        # Renamed when whole, so that another test run never starts half a binary.
        built.rename(cached)


def _go(go: str, *words: str, at: str) -> str:
    done = run_patiently([go, *words], env={**os.environ, "GOWORK": "off"}, cwd=Path(at))
    if done.returncode != 0:
        _not_available(f"promtool could not be built: {done.stderr[-500:]}")
    return done.stdout


def _not_available(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
