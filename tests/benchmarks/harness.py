"""Measuring: wall and CPU time, turns with a peer, percentiles, a table and one JSON line.

CPU time is that of this process with all its threads; servers (PostgreSQL, S3) are not in it, but
they share the machine. Contenders take turns, so that a noisy neighbour slows all of them alike.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import uvloop
from rich.console import Console
from rich.table import Table

from lakestream_spark.core.collector import spare_the_collector

T = TypeVar("T")

GB = 1e9
MB = 1e6
_TABLE_WIDTH = 150


class Cost(NamedTuple):
    """What a piece of work took."""

    wall_s: float
    cpu_s: float

    def mb_per_s(self, size: int) -> float:
        return size / MB / self.wall_s

    def cpu_s_per_gb(self, size: int) -> float:
        return self.cpu_s / size * GB


async def cost_of(work: Awaitable[object]) -> Cost:
    """Wall and CPU time until the work is done."""
    wall, cpu = time.perf_counter(), time.process_time()
    await work
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def median_cost(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.wall_s for cost in costs),
        statistics.median(cost.cpu_s for cost in costs),
    )


async def in_turns(
    rounds: int, contenders: Mapping[str, Callable[[int], Awaitable[T]]]
) -> dict[str, list[T]]:
    """The results of each contender; who goes first changes with every round."""
    results: dict[str, list[T]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            results[name].append(await contenders[name](number))
    return results


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def p50_ms(costs: Sequence[Cost]) -> float:
    return percentile([cost.wall_s for cost in costs], 0.50) * 1_000


def p99_ms(costs: Sequence[Cost]) -> float:
    return percentile([cost.wall_s for cost in costs], 0.99) * 1_000


def cpu_ms(costs: Sequence[Cost]) -> float:
    """The mean: the clock of CPU time may be coarse."""
    return statistics.fmean(cost.cpu_s for cost in costs) * 1_000


class Aim(NamedTuple):
    """A target of the project and what was measured."""

    name: str
    target: str
    figure: str
    met: bool

    @classmethod
    def at_most(cls, name: str, limit: float, figure: float, unit: str) -> "Aim":
        return cls(name, f"≤ {_number(limit)} {unit}", f"{_number(figure)} {unit}", figure <= limit)

    @classmethod
    def at_least(cls, name: str, limit: float, figure: float, unit: str) -> "Aim":
        return cls(name, f"≥ {_number(limit)} {unit}", f"{_number(figure)} {unit}", figure >= limit)


@dataclass(slots=True, kw_only=True)
class Report:
    """The rows of one benchmark, all with the same columns, and its aims."""

    benchmark: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    aims: list[Aim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, **row: Any) -> None:
        self.rows.append(row)
        progress(f"{self.benchmark}: " + ", ".join(f"{k} {cell(v)}" for k, v in row.items()))

    def show(self, *, quick: bool) -> None:
        console = Console(width=_TABLE_WIDTH)
        table = Table(title=self.benchmark + (" (quick: figures mean nothing)" if quick else ""))
        for name in self.rows[0] if self.rows else ():
            table.add_column(name.replace("_", " "), justify="right")
        for row in self.rows:
            table.add_row(*map(cell, row.values()))
        console.print(table)
        for note in self.notes:
            console.print(note, highlight=False)
        for aim in self.aims:
            verdict = "met" if aim.met else "missed"
            console.print(f"{aim.name}: {aim.figure}, aim {aim.target}: {verdict}", highlight=False)
        print(json.dumps(self._document(quick)), flush=True)

    def _document(self, quick: bool) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark,
            "rows": self.rows,
            "aims": [aim._asdict() for aim in self.aims],
            "notes": self.notes,
            "machine": machine(),
            "quick": quick,
        }


def cell(value: object) -> str:
    return _number(value) if isinstance(value, float) else str(value)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    model = [
        line.partition(":")[2].strip()
        for line in _lines(Path("/proc/cpuinfo"))
        if line.startswith("model name")
    ]
    return {
        "cpus": os.cpu_count(),
        "cpu": model[0] if model else platform.processor(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_1m_5m": [round(load, 2) for load in os.getloadavg()[:2]],
    }


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Options(NamedTuple):
    """How to run: `quick` only shows that everything works, `embedded` needs no server, `full`
    measures every combination where the default is a choice of them."""

    quick: bool
    embedded: bool
    full: bool = False


def run(benchmark: str, measure: Callable[[Report, Options], Awaitable[None]]) -> None:
    """The main function of a benchmark."""
    parser = argparse.ArgumentParser(prog=benchmark)
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it still run?")
    parser.add_argument("--embedded", action="store_true", help="only local disk and SQLite")
    parser.add_argument("--full", action="store_true", help="every combination")
    options = Options(**vars(parser.parse_args()))
    report = Report(benchmark=benchmark)

    async def main() -> None:
        await measure(report, options)

    spare_the_collector()  # as a broker does
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    report.show(quick=options.quick)
