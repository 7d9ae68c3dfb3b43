from uuid import UUID

import pytest

from lakestream_spark.core.ids import TopicId
from lakestream_spark.table.append import TableAppend, TableState, Verdict, decide

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
