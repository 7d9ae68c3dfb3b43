"""An append to a stream table as a value, and the decision whether it may still happen.

Pure: the state comes from one metadata file, and the catalog guards that it is still that one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple, Self
from uuid import UUID

from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of

from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata.tables import Quarantined
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
    quarantined: Sequence[Quarantined] = ()

    def __post_init__(self) -> None:
        """The last gate: files that overlap, or lie outside, would put an offset there twice."""
        reached = dict(self.starts)
        for file in sorted(self.files, key=lambda each: (each.partition, each.first)):
            first = reached.get(file.partition)
            if first is None or not first <= file.first < file.next <= self.ends[file.partition]:
                raise ValueError(f"a file of [{file.first}, {file.next}) does not fit its commit")
            reached[file.partition] = file.next

    def to_body(self) -> dict[str, Any]:
        """As JSON for the stored intent, everything but the commit id."""
        return {
            "starts": dict(self.starts),
            "ends": dict(self.ends),
            "files": [file.to_json() for file in self.files],
            "quarantined": [list(each) for each in self.quarantined],
        }

    @classmethod
    def from_body(cls, commit_id: UUID, body: Mapping[str, Any]) -> Self:
        return cls(
            commit_id=commit_id,
            starts={int(partition): start for partition, start in body["starts"].items()},
            ends={int(partition): end for partition, end in body["ends"].items()},
            files=tuple(DataFile.from_json(text) for text in body["files"]),
            quarantined=tuple(Quarantined(*each) for each in body.get("quarantined", ())),
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
    """Of the commits that the current snapshot is made of, as far back as snapshots are kept."""
    newest: str | None = None
    """The newest commit, as a property that outlives its snapshot, and a roll-back as well."""

    @classmethod
    def of(cls, table: Table) -> Self:
        properties = table.properties
        return cls(
            topic_id=TopicId(UUID(properties[TOPIC_ID_PROPERTY])),
            ends=decode_ends(properties.get(ENDS_PROPERTY, "")),
            commit_ids=commit_ids_of(table),
            newest=properties.get(COMMIT_ID_PROPERTY),
        )


def commit_ids_of(table: Table) -> frozenset[str]:
    """Of the commits whose rows are in the table: a snapshot that was rolled back has none."""
    return frozenset(_commit_ids(table))


def _commit_ids(table: Table) -> Iterator[str]:
    for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
        if snapshot.summary and COMMIT_ID_PROPERTY in snapshot.summary:
            yield str(snapshot.summary[COMMIT_ID_PROPERTY])


def decide(state: TableState, append: TableAppend) -> Verdict:
    """For a table that was not rolled back.

    Look for our own commit first: after it the ends differ from our starts, and rightly so.
    """
    commit_id = str(append.commit_id)
    if commit_id in state.commit_ids or commit_id == state.newest:
        return Verdict.ALREADY_DONE
    if any(state.ends.get(partition, 0) != start for partition, start in append.starts.items()):
        return Verdict.STALE
    return Verdict.APPLY
