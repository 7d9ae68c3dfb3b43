"""Queries in PromQL against the metrics that the program has."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import promql_parser

from lakestream_spark.core import metrics
from lakestream_spark.core.series import Family, Spread

# What Prometheus puts on every series, and what it makes itself.
_TARGET: Final = frozenset({"job", "instance"})
_OWN: Final = {"up": _TARGET}
# Of the collector that the page has from prometheus_client.
_PROCESS: Final = ("process_resident_memory_bytes", "process_cpu_seconds_total")

Series = Mapping[str, frozenset[str]]
"""The labels of each series by its name."""


def known_series() -> Series:
    """Every series of the program, made from the families that the code declares."""
    found = dict(_OWN)
    families = [each for each in vars(metrics).values() if isinstance(each, Family)]
    assert {each.name for each in families} == set(metrics.NAMES)
    for family in families:
        labels = _TARGET | set(family.labels)
        if isinstance(family._make(), Spread):
            found[f"{family.name}_bucket"] = labels | {"le"}
            found |= {f"{family.name}_{part}": labels for part in ("sum", "count")}
        else:
            found[family.name] = labels
    return {**found, **dict.fromkeys(_PROCESS, _TARGET)}


def _walk(node: Any) -> Iterator[Any]:
    """The node and everything below it."""
    yield node
    for name in ("lhs", "rhs", "expr", "vector_selector", "param"):
        below = getattr(node, name, None)
        if below is not None and not isinstance(below, str):
            yield from _walk(below)
    for argument in getattr(node, "args", None) or ():
        yield from _walk(argument)


def selectors(query: str) -> list[Any]:
    """Whatever the query asks for, with its name and its matchers; raises when it is no query."""
    nodes = _walk(promql_parser.parse(query))
    return [each for each in nodes if isinstance(each, promql_parser.VectorSelector)]


def strangers(query: str, known: Series) -> list[str]:
    """Names of series and labels in the query that do not exist; raises when it is no query."""
    asked = selectors(query)
    assert asked, f"nothing is asked for: {query}"
    found = [each.name for each in asked if each.name not in known]
    own: set[str] = set(_TARGET)
    for each in asked:
        labels = known.get(each.name, frozenset())
        own |= labels
        found += [m.name for m in each.matchers.matchers if m.name not in labels]
    nodes = _walk(promql_parser.parse(query))
    grouped = [label for each in nodes for label in _grouped(each)]
    return found if found else [label for label in grouped if label not in own]


def _grouped(node: Any) -> list[str]:
    """Labels by which an aggregation groups or an operator matches."""
    modifier = getattr(node, "modifier", None)
    if modifier is None:
        return []
    matching = getattr(modifier, "matching", None)
    labels = getattr(modifier, "labels", None) or getattr(matching, "labels", None)
    return list(labels or ())
