"""The report of all benchmarks: complete, honest about what is missing, the same for one input."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import report
from tests.benchmarks.page import page
from tests.benchmarks.plots import PLOTS, Plot, bars
from tests.benchmarks.quoted import BEGIN, END, with_figures

ROOT = Path(__file__).parents[3]


def entry(**changed: Any) -> dict[str, Any]:
    return {
        "taken_at": "2026-01-02T03:04:05+00:00",
        "seconds": 7,
        "versions": {"pyspark": "4.1"},
        "rows": [{"who": "ours", "mb_per_s": 3.0}, {"who": "a | b", "mb_per_s": 1.5}],
        "aims": [{"name": "fast", "target": "≥ 2", "figure": "3", "met": True}],
        "notes": ["once"],
        "machine": {"cpus": 2, "cpu": "x", "system": "linux", "python": "3.11"},
    } | changed


def test_knows_every_benchmark_once() -> None:
    known = [name for names in report.PARTS.values() for name in names]
    there = [path.stem.removeprefix("bench_") for path in report.HERE.glob("bench_*.py")]
    assert sorted(known) == sorted(there)
    assert set(PLOTS) <= set(known)


def test_shows_an_aim_with_its_figure_and_verdict() -> None:
    missed = {"name": "slow", "target": "≤ 1", "figure": "9", "met": False}
    text = page({"1": ("one", "two")}, {"one": entry(), "two": entry(aims=[missed])})
    assert "| [one](#one) | fast | ≥ 2 | 3 | met |" in text
    assert "| [two](#two) | slow | ≤ 1 | 9 | **missed** |" in text
    assert "1 of 2 met." in text
    assert "| a \\| b | 1.5 |" in text


def test_names_what_was_not_measured_and_what_failed() -> None:
    failed = {"taken_at": "2026-01-02T03:04:05+00:00", "seconds": 1, "failed": "ended with code 1"}
    text = page({"1": ("one", "two")}, {"two": failed})
    assert text.count("**not measured**") == 2
    assert "0 of 0 met. 2 of 2 benchmarks are not measured." in text
    assert "ended with code 1" in text


def test_draws_the_same_bars_for_the_same_figures_and_escapes_names() -> None:
    rows: list[dict[str, Any]] = [
        {"who": "<ours>", "v": 2.0},
        {"who": "peer", "v": 1.0},
        {"who": "none", "v": ""},
    ]
    drawn = bars("t", rows, Plot("v", "MB/s", ("who",)))
    assert drawn == bars("t", rows, Plot("v", "MB/s", ("who",)))
    assert "&lt;ours&gt;" in drawn
    assert "none" not in drawn


def test_the_readme_quotes_the_report_as_it_is() -> None:
    held = json.loads((report.HERE / "REPORT.json").read_text())
    readme = report.README.read_text()
    assert with_figures(readme, report.PARTS, held) == readme


def test_what_is_quoted_leaves_out_no_aim_that_is_missed() -> None:
    aims = [
        {"name": name, "target": "≤ 1", "figure": "9", "met": met}
        for name, met in (("fast", True), ("slow", False), ("small", True))
    ]
    text = with_figures(
        f"# T\n{BEGIN}old\n{END}rest\n",
        {"1": ("compaction", "silver", "idle")},
        {"compaction": entry(aims=aims), "silver": entry(aims=aims, taken_at="2026-02-03T")},
    )
    rows = [line for line in text.splitlines() if "≤ 1" in line]
    assert [row.split(" | ")[:2] for row in rows] == [
        ["| compaction", "fast"],
        ["| compaction", "slow"],
        ["| silver", "slow"],
    ]
    assert "Measured 2026-01-02 to 2026-02-03, 4 of 6 aims met" in text
    assert "Not measured yet: idle." in text
    assert "old" not in text
    assert text.endswith("rest\n")


def test_a_whole_name_is_one_benchmark_and_a_part_of_names_is_several() -> None:
    assert report.chosen("read") == ["read"]
    assert report.chosen("ingress") == list(report.PARTS["2 · the ingress"])


def test_refuses_a_name_that_is_nowhere() -> None:
    with pytest.raises(SystemExit, match="No benchmark has 'nothing'"):
        report.chosen("nothing")


@pytest.mark.long
def test_writes_page_and_figures_of_a_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.benchmarks.report", "commit", "--quick", "--embedded"]
    done = subprocess.run(
        [*command, "--into", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    held = json.loads((tmp_path / "REPORT.json").read_text())
    assert held["commit"]["rows"]
    assert "### commit" in (tmp_path / "REPORT.md").read_text()
    assert (tmp_path / "plots" / "commit.svg").read_text().startswith("<svg")


def test_figures_without_meaning_are_not_kept() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.report", "commit", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--quick needs --into" in done.stderr
