"""All benchmarks one after the other, and what they found: `REPORT.md`, `REPORT.json`, plots
and what the README quotes of them.

A benchmark runs in a process of its own and ends with one line of JSON; that line, its date and how
long it took are kept in `REPORT.json`, and the page is written anew after each, so that a run that
is broken off has lost nothing. A benchmark that is not run keeps its older figures and their date;
one that fails is named with its last words.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.harness import progress
from tests.benchmarks.page import page
from tests.benchmarks.plots import PLOTS, bars
from tests.benchmarks.quoted import with_figures
from tests.benchmarks.versions import versions

HERE: Final = Path(__file__).parent
README: Final = HERE.parents[1] / "README.md"
PARTS: Final = {
    "1 · the log": ("append", "read", "commit", "index_growth", "metadata_size"),
    "2 · the ingress": (
        "ingress_produce",
        "ingress_fetch",
        "ingress_latency",
        "ingress_crowd",
    ),
    "3 · Spark compacts and commits": (
        "kernels",
        "compaction",
        "compaction_lag",
        "compaction_backlog",
        "compaction_wide",
        "table_growth",
    ),
    "4 · the table is the log": ("replay", "replay_first", "union_read", "one_copy"),
    "5 · run it": ("first_row", "status_page", "idle", "silver"),
}
"""Every benchmark, in the order in which they run and are shown."""
_LAST_WORDS: Final = 600
_FOUND: Final = '{"benchmark"'
"""So begins the line that is meant for us."""


def chosen(named: str) -> list[str]:
    """The benchmark of that name, else those whose name contains the words, or all."""
    every = [name for names in PARTS.values() for name in names]
    found = [named] if named in every else [name for name in every if named in name]
    if not found:
        raise SystemExit(f"No benchmark has {named!r} in its name: tests/benchmarks/bench_*.py.")
    return found


def took(name: str, options: Sequence[str]) -> dict[str, Any]:
    """What a benchmark found, or why it found nothing."""
    began = time.monotonic()
    command = [sys.executable, "-m", f"tests.benchmarks.bench_{name}", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        assert running.stdout is not None
        lines = list(_shown(running.stdout))
    entry: dict[str, Any] = {
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - began),
        "versions": versions(),
    }
    if running.returncode != 0:
        said = "".join(lines)[-_LAST_WORDS:]
        return entry | {"failed": f"ended with code {running.returncode}. {said}".strip()}
    return entry | json.loads(next(line for line in lines if line.startswith(_FOUND)))


def _shown(stdout: Iterator[str]) -> Iterator[str]:
    """The lines, shown as they come, but for the one that is meant for us."""
    for line in stdout:
        if not line.startswith(_FOUND):
            print(line, end="", flush=True)
        yield line


def write(folder: Path, held: dict[str, Any]) -> None:
    """The report as its readers find it; figures that are not there leave no plot."""
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    for name, entry in held.items():
        if name in PLOTS and entry.get("rows"):
            (plots / f"{name}.svg").write_text(bars(name, entry["rows"], PLOTS[name]))
    (folder / "REPORT.json").write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n")
    (folder / "REPORT.md").write_text(page(PARTS, held))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("name", nargs="?", default="", help="those whose name contains it")
    parser.add_argument("--into", type=Path, default=HERE, help="the folder of the report")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, figures mean nothing")
    parser.add_argument("--embedded", action="store_true", help="only local disk and SQLite")
    parser.add_argument("--full", action="store_true", help="combinations that no aim asks for too")
    asked = parser.parse_args()
    if asked.quick and asked.into == HERE:
        parser.error("--quick needs --into: its figures mean nothing and must not be kept.")
    options = [f"--{flag}" for flag in ("quick", "embedded", "full") if getattr(asked, flag)]
    stored = asked.into / "REPORT.json"
    held = json.loads(stored.read_text()) if stored.exists() else {}
    names = chosen(asked.name)
    for number, name in enumerate(names, start=1):
        progress(f"== {name}, {number} of {len(names)}")
        held[name] = took(name, options)
        write(asked.into, held)
        if asked.into == HERE:
            README.write_text(with_figures(README.read_text(), PARTS, held))
    failed = [name for name in names if "failed" in held[name]]
    progress(f"{len(names) - len(failed)} of {len(names)} measured: {asked.into / 'REPORT.md'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
