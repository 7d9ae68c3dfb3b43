"""What README.md quotes of the report: when, how many aims are met, and every aim that is missed.

What always holds: the lines between the two marks are those of `REPORT.json`, so that the front
page never says better than the report.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tests.benchmarks.page import Held, aim_cells

BEGIN: Final = "<!-- figures: written by make bench -->\n"
END: Final = "<!-- end of figures -->\n"
_HEADLINES: Final = (
    "ingress_produce",
    "ingress_fetch",
    "ingress_latency",
    "kernels",
    "compaction",
    "compaction_lag",
    "replay",
    "one_copy",
    "first_row",
    "idle",
)
"""Benchmarks whose first aim is shown, met or missed; of the others what is missed."""


def with_figures(readme: str, parts: Mapping[str, Sequence[str]], held: Held) -> str:
    """The README with the lines between the marks written anew."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + "\n".join(_lines(parts, held)) + "\n" + END + after


def _lines(parts: Mapping[str, Sequence[str]], held: Held) -> Iterator[str]:
    names = [name for own in parts.values() for name in own]
    measured = {name: held[name] for name in names if "aims" in held.get(name, {})}
    aims = [aim for entry in measured.values() for aim in entry["aims"]]
    met = sum(1 for aim in aims if aim["met"])
    days = sorted({str(entry["taken_at"])[:10] for entry in measured.values()})
    when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    yield f"Measured {when}, {met} of {len(aims)} aims met; every aim that is missed is here:"
    yield from ("", "| benchmark | aim | target | figure | |", "|---|---|---|---|---|")
    for name, entry in measured.items():
        for number, aim in enumerate(entry["aims"]):
            if not aim["met"] or (number == 0 and name in _HEADLINES):
                yield f"| {name} | {aim_cells(aim)} |"
    left = [name for name in names if name not in measured]
    if left:
        yield from ("", f"Not measured yet: {', '.join(left)}.")
