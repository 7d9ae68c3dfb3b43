"""Counters, histograms and gauges that cost a few additions, shown in Prometheus' own format.

What always holds: a series is touched by the event loop's thread only, so that it needs no lock;
nothing is computed before somebody asks for the page; a family without a series is still listed.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

Labels = tuple[str, ...]
Read = Callable[[], float]


class Count:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, amount: int = 1) -> None:
        self.value += amount

    def now(self) -> int:
        return self.value


class Level:
    """A number that goes up and down, held by its owner or read from it when the page is made."""

    __slots__ = ("_readers", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self._readers: list[Read] = []

    def add(self, amount: float = 1) -> None:
        self.value += amount

    def watch(self, read: Read) -> Callable[[], None]:
        """Read the number from its owner from now on; the result ends that."""
        self._readers.append(read)
        return lambda: self._readers.remove(read)

    def read_from(self, read: Read) -> None:
        """Read the number from its owner, who is the only one from now on."""
        self._readers = [read]

    def now(self) -> float:
        return self.value + sum(read() for read in self._readers)


class Spread:
    """How often values fell between the bounds, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Upper bound and number of values up to it, as Prometheus wants them."""
        total = 0
        found: list[tuple[str, float]] = []
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            total += count
            found.append((bound, float(total)))
        return found


Series = TypeVar("Series", Count, Level, Spread)


class Family(Generic[Series]):
    """All series of one name; `of` gives the one with these labels, to be kept by who uses it."""

    def __init__(self, name: str, doc: str, labels: Labels, make: Callable[[], Series]) -> None:
        self.name: Final = name
        self.doc: Final = doc
        self.labels: Final = labels
        self._make: Callable[[], Series] = make
        self._series: dict[Labels, Series] = {}

    def of(self, *labels: str) -> Series:
        found = self._series.get(labels)
        if found is None:
            if len(labels) != len(self.labels):
                raise ValueError(f"{self.name} has the labels {self.labels}")
            found = self._series[labels] = self._make()
        return found

    def shown(self) -> Iterator[tuple[Labels, Series]]:
        yield from list(self._series.items())


class Page(Collector):
    """The families of this process, in the order they were declared."""

    def __init__(self) -> None:
        self._families: list[tuple[str, Callable[[], Metric]]] = []

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self._families)

    def count(self, name: str, doc: str, *labels: str) -> Family[Count]:
        family = Family(name, doc, labels, Count)
        self._families.append((name, lambda: _counter(family)))
        return family

    def reading(self, name: str, doc: str, *labels: str) -> Family[Level]:
        """A count that its owner keeps, to be watched."""
        family = Family(name, doc, labels, Level)
        self._families.append((name, lambda: _counter(family)))
        return family

    def level(self, name: str, doc: str, *labels: str) -> Family[Level]:
        family = Family(name, doc, labels, Level)
        self._families.append((name, lambda: _gauge(family)))
        return family

    def spread(self, name: str, doc: str, *labels: str, bounds: Sequence[float]) -> Family[Spread]:
        family = Family(name, doc, labels, lambda: Spread(bounds))
        self._families.append((name, lambda: _histogram(family)))
        return family

    def collect(self) -> Iterator[Metric]:
        return (make() for _, make in self._families)


def _counter(family: Family[Count] | Family[Level]) -> Metric:
    metric = CounterMetricFamily(family.name, family.doc, labels=family.labels)
    for labels, series in family.shown():
        metric.add_metric(labels, series.now())
    return metric


def _gauge(family: Family[Level]) -> Metric:
    metric = GaugeMetricFamily(family.name, family.doc, labels=family.labels)
    for labels, series in family.shown():
        metric.add_metric(labels, series.now())
    return metric


def _histogram(family: Family[Spread]) -> Metric:
    metric = HistogramMetricFamily(family.name, family.doc, labels=family.labels)
    for labels, series in family.shown():
        metric.add_metric(labels, series.buckets(), series.sum)
    return metric
