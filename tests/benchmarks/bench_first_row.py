"""How long a newcomer waits, and what it costs them: `make run` to the first committed row, the
help of the command, and the disk that an installation takes.

The first row is timed from `make run` to the line that tells of it, in an empty folder, set up
before; what the demo counts by itself is beside it. It is timed once more in a fresh clone with an
environment and a cache of its own: packages and jars are at hand, but the environment, the archive
of Spark's classes and the compiled kernels have to be made.
"""

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from lakestream_spark.spark.jars import cache_base, cache_folder
from lakestream_spark.spark.jvm import archive_path
from tests.benchmarks import installed
from tests.benchmarks.harness import MB, Aim, Options, Report, run
from tests.benchmarks.servers import scratch

ROOT: Final = Path(__file__).parents[2]
AIM_FIRST_ROW_S: Final = 40.0
AIM_WITH_SETUP_S: Final = 180.0
AIM_HELP_S: Final = 0.4
AIM_INSTALLED_MB: Final = 1_500.0
_COMMITTED: Final = re.compile(r"committed .* first row in the table after (\d+) s")


class FirstRow(NamedTuple):
    """Seconds to the first committed row, from outside and as the demo tells them."""

    seconds: float
    told_s: float


def first_row(project: Path, data: Path, **environ: str) -> FirstRow:
    """Type `make run`, and Ctrl-C once the first row is there."""
    words = {"DATA": str(data), "PORT": "0", "ADMIN_PORT": "0"}
    own = {k: v for k, v in os.environ.items() if not k.startswith(("LAKESTREAM_", "MAKE"))}
    began = time.monotonic()
    with subprocess.Popen(
        ["make", "run"],
        cwd=project,
        env=own | words | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as making:
        assert making.stdout is not None
        for line in making.stdout:
            told = _COMMITTED.match(line)
            if told is not None:
                found = FirstRow(time.monotonic() - began, float(told[1]))
                os.killpg(making.pid, signal.SIGINT)
                making.communicate()
                return found
        raise AssertionError(f"no row came: {making.stderr.read() if making.stderr else ''}")


def measure_first_row(report: Report, rounds: int) -> None:
    found = []
    for _ in range(rounds):
        with scratch() as folder:
            found.append(first_row(ROOT, folder / "data"))
    seconds = [each.seconds for each in found]
    add(report, "make run to the first committed row", seconds, "s")
    add(report, "the same as the demo tells it", [each.told_s for each in found], "s")
    median = statistics.median(seconds)
    report.aims.append(
        Aim.at_most("first committed row after `make run`, set up", AIM_FIRST_ROW_S, median, "s")
    )


def measure_setup(report: Report) -> None:
    """In a clone, as after `git clone`; what was never committed is not in it."""
    with scratch() as folder:
        subprocess.run(["git", "clone", "--quiet", ROOT, folder / "clone"], check=True)
        cache = folder / "cache"
        jars = cache_folder()
        shutil.copytree(jars, cache / jars.relative_to(cache_base().parent))
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        packages = {"UV_CACHE_DIR": str(home / "uv"), "PIP_CACHE_DIR": str(home / "pip")}
        found = first_row(folder / "clone", folder / "data", XDG_CACHE_HOME=str(cache), **packages)
    add(report, "the same with set-up in a fresh clone", [found.seconds], "s")
    report.aims.append(
        Aim.at_most(
            "first committed row with set-up, packages cached",
            AIM_WITH_SETUP_S,
            found.seconds,
            "s",
        )
    )


def measure_help(report: Report, rounds: int) -> None:
    command = [str(Path(sys.executable).parent / "lakestream"), "--help"]
    walls = []
    for _ in range(rounds + 1):
        began = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        walls.append(time.monotonic() - began)
    own = walls[1:]
    add(report, "lakestream --help", own, "s")
    report.aims.append(Aim.at_most("`lakestream --help`", AIM_HELP_S, statistics.median(own), "s"))


def measure_installed(report: Report) -> None:
    environment, users = installed.taken(installed.environment()), installed.for_users()
    jars = installed.taken(cache_folder())
    archive = archive_path()
    classes = 0 if archive is None else installed.taken(archive)
    parts = {
        "packages of all extras but dev, Spark with them": users,
        "packages of dev: what tests and checks need": environment - users,
        "Spark's further jars": jars,
        "archive of Spark's classes": classes,
    }
    for what, size in parts.items():
        add(report, what, [size / MB], "MB")
    beside = (jars + classes) / MB
    name = "disk of an install with all extras"
    report.aims += [
        Aim.at_most(f"{name} but dev", AIM_INSTALLED_MB, users / MB + beside, "MB"),
        Aim.at_most(f"{name} and dev", AIM_INSTALLED_MB, environment / MB + beside, "MB"),
    ]


def add(report: Report, what: str, values: list[float], unit: str) -> None:
    spread = f"{min(values):.3g}–{max(values):.3g}" if len(values) > 1 else ""
    report.add(what=what, median=statistics.median(values), spread=spread, unit=unit)


async def measure(report: Report, options: Options) -> None:
    measure_help(report, 1 if options.quick else 11)
    measure_installed(report)
    measure_first_row(report, 1 if options.quick else 5)
    if not options.quick:
        measure_setup(report)


if __name__ == "__main__":
    run("first_row", measure)
