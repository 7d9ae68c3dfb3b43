"""The report as a page: every aim of every part first, then each benchmark's figures.

What always holds: an aim stands with its figure, met or missed; a benchmark without figures is
named as such and never left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.benchmarks.harness import cell
from tests.benchmarks.plots import PLOTS

_INTRODUCTION = """\
Written by `make bench`; the same figures are in `REPORT.json`. Contenders take turns on one
machine, figures are medians, a spread is the least and the most over the repeats. Where a peer is
named, only the ratio means something elsewhere."""

Held = Mapping[str, Mapping[str, Any]]


def page(parts: Mapping[str, Sequence[str]], held: Held) -> str:
    """The whole of `REPORT.md`."""
    return "\n".join(
        [
            "# Benchmarks",
            "",
            _INTRODUCTION,
            "",
            *_machine(held),
            "## Aims",
            "",
            *_summary(parts, held),
            *(line for part, names in parts.items() for line in _aims(part, names, held)),
            *(line for part, names in parts.items() for line in _part(part, names, held)),
        ]
    )


def _machine(held: Held) -> Iterator[str]:
    entries = [entry for entry in held.values() if "machine" in entry]
    if not entries:
        return
    newest = max(entries, key=lambda entry: str(entry["taken_at"]))
    machine, versions = newest["machine"], newest["versions"]
    yield f"Machine: {machine['cpus']} × {machine['cpu']}, {machine['system']}."
    named = {"Python": machine["python"], **versions}
    yield "Versions: " + ", ".join(f"{name} {number}" for name, number in named.items()) + "."
    yield ""


def _summary(parts: Mapping[str, Sequence[str]], held: Held) -> Iterator[str]:
    aims = [aim for entry in held.values() for aim in entry.get("aims", ())]
    met = sum(1 for aim in aims if aim["met"])
    names = [name for own in parts.values() for name in own]
    left = [name for name in names if "rows" not in held.get(name, {})]
    missing = f" {len(left)} of {len(names)} benchmarks are not measured." if left else ""
    yield f"{met} of {len(aims)} met.{missing}"
    yield ""


def _aims(part: str, names: Sequence[str], held: Held) -> Iterator[str]:
    yield from (f"### Part {part}", "", "| benchmark | aim | target | figure | |")
    yield "|---|---|---|---|---|"
    for name in names:
        entry = held.get(name, {})
        link = f"[{name}](#{name})"
        for aim in entry.get("aims", ()):
            yield f"| {link} | {aim_cells(aim)} |"
        if not entry or "failed" in entry:
            yield f"| {link} | | | | **not measured** |"
    yield ""


def aim_cells(aim: Mapping[str, Any]) -> str:
    """An aim, its target, its figure and the verdict, as cells of a table."""
    verdict = "met" if aim["met"] else "**missed**"
    return f"{_plain(aim['name'])} | {_plain(aim['target'])} | {_plain(aim['figure'])} | {verdict}"


def _part(part: str, names: Sequence[str], held: Held) -> Iterator[str]:
    yield from (f"## Part {part}", "")
    for name in names:
        yield from (f"### {name}", "")
        yield from _benchmark(name, held.get(name))


def _benchmark(name: str, entry: Mapping[str, Any] | None) -> Iterator[str]:
    if entry is None:
        yield from (f"Not measured yet: `make bench BENCH={name}`.", "")
        return
    yield f"{entry['taken_at'][:16].replace('T', ' ')} UTC, {entry['seconds']} s{_load(entry)}."
    yield ""
    if "failed" in entry:
        yield from ("It failed:", "", "```", entry["failed"], "```", "")
        return
    if name in PLOTS and entry["rows"]:
        yield from (f"![{name}](plots/{name}.svg)", "")
    yield from _table(entry["rows"])
    for note in entry["notes"]:
        yield from (_plain(note), "")


def _load(entry: Mapping[str, Any]) -> str:
    """What else the machine may have done meanwhile: a benchmark's own load is in it."""
    found = entry.get("machine", {}).get("load_1m_5m")
    return f", load at its end {found[1]:.0f} over five minutes" if found else ""


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    yield "| " + " | ".join(column.replace("_", " ") for column in rows[0]) + " |"
    yield "|" + "---:|" * len(rows[0])
    for row in rows:
        yield "| " + " | ".join(_plain(cell(value)) for value in row.values()) + " |"
    yield ""


def _plain(text: str) -> str:
    """Text that a table of Markdown takes as it is."""
    return text.replace("|", "\\|").replace("\n", " ")
