"""Every benchmark still runs and prints one line of JSON as its last line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.long
BENCHMARKS = sorted(path.stem for path in (ROOT / "tests" / "benchmarks").glob("bench_*.py"))
WITH_PEERS = (
    "bench_compaction",
    "bench_first_row",
    "bench_idle",
    "bench_ingress",
    "bench_one_copy",
    "bench_replay",
    "bench_silver",
    "bench_status_page",
    "bench_union_read",
)
"""Those with these beginnings start Spark, Apache Kafka or a browser first, or fill tables."""


ON_EVERY_STORE = ("bench_append", "bench_read", "bench_commit", "bench_index", "bench_metadata")
"""Those with these beginnings measure PostgreSQL and S3 as well, where they may."""


def run(benchmark: str, *options: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.benchmarks.{benchmark}", "--quick", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def check(document: dict[str, Any], benchmark: str) -> None:
    assert document["benchmark"] == benchmark.removeprefix("bench_")
    assert document["quick"] is True
    assert document["machine"]["cpus"] >= 1
    columns = {tuple(row) for row in document["rows"]}
    assert len(columns) == 1, "every row has the same columns"
    assert all({"name", "target", "figure", "met"} == set(aim) for aim in document["aims"])


@pytest.mark.parametrize("benchmark", [b for b in BENCHMARKS if not b.startswith(WITH_PEERS)])
def test_runs_on_what_is_embedded_and_prints_json(benchmark: str) -> None:
    check(run(benchmark, "--embedded"), benchmark)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("benchmark", [b for b in BENCHMARKS if b.startswith(WITH_PEERS)])
def test_runs_beside_its_peer_and_prints_json(benchmark: str) -> None:
    check(run(benchmark, "--embedded"), benchmark)


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.postgres
@pytest.mark.parametrize("benchmark", [b for b in BENCHMARKS if b.startswith(ON_EVERY_STORE)])
def test_runs_on_every_store_and_prints_json(benchmark: str) -> None:
    document = run(benchmark)
    check(document, benchmark)
    assert document["notes"] == [], "nothing was left out"
