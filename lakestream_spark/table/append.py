"""An append to a stream table as a value, and the decision whether it may still happen.

Pure: the state comes from one metadata file, and the catalog guards that it is still that one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple, Self
from uuid import UUID

from pyiceberg.table import Table

from lakestream_spark.core.ids import TopicId
from lakestream_spark.table.files import DataFile
from lakestream_spark.table.layout import (
    COMMIT_ID_PROPERTY,
    ENDS_PROPERTY,
    TOPIC_ID_PROPERTY,
    decode_ends,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAppend:
    """Files that move the ends of a topic's partitions from `starts` to `ends`, as one commit."""

    commit_id: UUID
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    files: Sequence[DataFile]

    def to_body(self) -> dict[str, Any]:
        """As JSON for the stored intent, everything but the commit id."""
        return {
            "starts": dict(self.starts),
            "ends": dict(self.ends),
            "files": [file.to_json() for file in self.files],
        }

    @classmethod
    def from_body(cls, commit_id: UUID, body: Mapping[str, Any]) -> Self:
        return cls(
            commit_id=commit_id,
            starts={int(partition): start for partition, start in body["starts"].items()},
            ends={int(partition): end for partition, end in body["ends"].items()},
            files=tuple(DataFile.from_json(text) for text in body["files"]),
        )


class Verdict(Enum):
    """What an append means for the table as it is now."""

    APPLY = auto()
    ALREADY_DONE = auto()
    STALE = auto()


class TableState(NamedTuple):
    """What one metadata file says about the stream in it."""

    topic_id: TopicId
    ends: Mapping[int, int]
    commit_ids: frozenset[str]

    @classmethod
    def of(cls, table: Table) -> Self:
        properties = table.properties
        return cls(
            topic_id=TopicId(UUID(properties[TOPIC_ID_PROPERTY])),
            ends=decode_ends(properties.get(ENDS_PROPERTY, "")),
            commit_ids=frozenset(
                str(snapshot.summary[COMMIT_ID_PROPERTY])
                for snapshot in table.snapshots()
                if snapshot.summary and COMMIT_ID_PROPERTY in snapshot.summary
            ),
        )


def decide(state: TableState, append: TableAppend) -> Verdict:
    """Look for our own commit first: after it the ends differ from our starts, and rightly so."""
    if str(append.commit_id) in state.commit_ids:
        return Verdict.ALREADY_DONE
    if any(state.ends.get(partition, 0) != start for partition, start in append.starts.items()):
        return Verdict.STALE
    return Verdict.APPLY
