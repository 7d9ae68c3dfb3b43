from uuid import UUID

import pytest

from lakestream_spark.core.ids import TopicId
from lakestream_spark.table.append import TableAppend, TableState, Verdict, decide
from lakestream_spark.table.files import DataFile, FileStatistics

OURS, OTHER = UUID(int=1), UUID(int=2)
APPEND = TableAppend(commit_id=OURS, starts={0: 5, 1: 0}, ends={0: 9, 1: 2}, files=())


@pytest.mark.parametrize(
    ("ends", "commits", "verdict"),
    [
        ({0: 5, 1: 0}, [OTHER], Verdict.APPLY),
        ({0: 5}, [], Verdict.APPLY),
        ({0: 9, 1: 2}, [OTHER, OURS], Verdict.ALREADY_DONE),
        ({0: 12, 1: 7}, [OURS, OTHER], Verdict.ALREADY_DONE),
        ({0: 9, 1: 2}, [OTHER], Verdict.STALE),
        ({0: 5, 1: 1}, [], Verdict.STALE),
        ({0: 4}, [], Verdict.STALE),
    ],
)
def test_append_goes_ahead_only_from_its_own_start(
    ends: dict[int, int], commits: list[UUID], verdict: Verdict
) -> None:
    state = TableState(TopicId(UUID(int=7)), ends, frozenset(map(str, commits)))
    assert decide(state, APPEND) is verdict


def test_append_comes_back_equal_from_its_intent() -> None:
    assert TableAppend.from_body(OURS, APPEND.to_body()) == TableAppend(
        commit_id=OURS, starts=APPEND.starts, ends=APPEND.ends, files=()
    )


NO_STATISTICS = FileStatistics(
    column_sizes={},
    value_counts={},
    null_value_counts={},
    lower_bounds={},
    upper_bounds={},
    split_offsets=(),
)


@pytest.mark.parametrize(
    "spans",
    [
        pytest.param([(0, 5, 8), (0, 7, 9)], id="overlap"),
        pytest.param([(0, 5, 10)], id="beyond the end"),
        pytest.param([(0, 4, 6)], id="below the start"),
        pytest.param([(2, 0, 1)], id="another partition"),
    ],
)
def test_files_that_would_put_an_offset_there_twice_are_refused(
    spans: list[tuple[int, int, int]],
) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        TableAppend(
            commit_id=OURS,
            starts=APPEND.starts,
            ends=APPEND.ends,
            files=[file_of(*span) for span in spans],
        )


def test_files_of_one_partition_may_leave_holes() -> None:
    files = [file_of(0, 7, 9), file_of(0, 5, 6), file_of(1, 0, 2)]
    TableAppend(commit_id=OURS, starts=APPEND.starts, ends=APPEND.ends, files=files)


def file_of(partition: int, first: int, following: int) -> DataFile:
    return DataFile(
        path=f"file:///{first}",
        partition=partition,
        first=first,
        next=following,
        rows=1,
        size=1,
        statistics=NO_STATISTICS,
    )
