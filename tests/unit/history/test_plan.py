"""Which files a plan has for a partition."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from lakestream_spark.history.manifests import PlannedFile
from lakestream_spark.history.overlaps import Bounds
from lakestream_spark.history.plan import FileSpan, Plan

UNKNOWN = Bounds(0, 2**31 - 1)


class GoneThrough(tuple[PlannedFile, ...]):
    """Files that count how often all of them are looked at."""

    times = 0

    def __iter__(self) -> Iterator[PlannedFile]:
        GoneThrough.times += 1
        return super().__iter__()


def planned(data: Sequence[PlannedFile]) -> Plan:
    told: dict[str, Any] = {"metadata_location": "", "snapshot_id": 1, "ends": {}, "deleted": {}}
    return Plan(io=PyArrowFileIO(), data=data, **told)


def file(name: str, partitions: Bounds, first: int, last: int) -> PlannedFile:
    return PlannedFile(name, 10, partitions, Bounds(first, last), None)


def names(spans: Sequence[FileSpan]) -> list[list[str]]:
    return [sorted(each.path for each in span.files) for span in spans]


def test_a_partition_has_its_own_files_and_those_over_several_in_offset_order() -> None:
    plan = planned(
        [
            file("b", Bounds(1, 1), 10, 19),
            file("a", Bounds(1, 1), 0, 9),
            file("other", Bounds(2, 2), 0, 9),
            file("several", Bounds(1, 2), 20, 29),
            file("unknown", UNKNOWN, 15, 25),
        ]
    )
    assert names(plan.spans(1)) == [["a"], ["b", "several", "unknown"]]
    assert names(plan.spans(2)) == [["other"], ["several", "unknown"]]
    assert names(plan.spans(3)) == [["unknown"]]


def test_files_between_offsets_are_those_that_may_hold_them() -> None:
    own = Bounds(0, 0)
    plan = planned(
        [
            file("a", own, 0, 9),
            file("b", own, 10, 19),
            file("over b", own, 15, 40),
            file("c", own, 50, 59),
        ]
    )

    def between(first: int, following: int) -> list[str]:
        return [each.path for each in plan.files_between(0, first, following)]

    assert between(0, 10) == ["a"]
    assert between(9, 16) == ["a", "b", "over b"]
    assert between(20, 50) == ["over b"], "and not the file that this one overlaps"
    assert between(41, 100) == ["c"]
    assert between(60, 100) == []


def test_files_are_gone_through_once_for_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GoneThrough, "times", 0)
    plan = planned(GoneThrough(file(f"{n}", Bounds(n, n), 0, 9) for n in range(50)))
    assert [names(plan.spans(n)) for n in range(50)] == [[[f"{n}"]] for n in range(50)]
    assert GoneThrough.times == 1
