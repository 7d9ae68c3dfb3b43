"""What became of a slice, as its task tells the driver, and what the driver makes of them.

A task never fails because of one slice: each outcome is a value, so that one bad partition does not
stop the others. Pure, and as JSON across the border between task and driver.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple, Self
from uuid import UUID

import pyarrow as pa

from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata.tables import PlannedRange, Quarantined
from lakestream_spark.table.files import DataFile
from lakestream_spark.table.runs import Run, size_of, within

RESULT_SCHEMA: Final = (
    "topic_id string, plan bigint, partition int, first bigint, next bigint, "
    "kind string, rows bigint, bytes bigint, wal_bytes bigint, files int, body string"
)
_RESULT: Final = pa.schema(
    [
        ("topic_id", pa.string()),
        ("plan", pa.int64()),
        ("partition", pa.int32()),
        ("first", pa.int64()),
        ("next", pa.int64()),
        ("kind", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("wal_bytes", pa.int64()),
        ("files", pa.int32()),
        ("body", pa.string()),
    ]
)


class Kind(StrEnum):
    """How the work on a slice ended."""

    WRITTEN = "written"
    GONE = "gone"
    """A WAL segment is not in the store: the table has the range by now, the range lies elsewhere
    by now, or data is lost."""
    CORRUPT = "corrupt"
    FAILED = "failed"
    """A store does not answer, or anything else; a later batch tries again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One slice, its file if it has rows, and the batches that were set aside."""

    topic_id: TopicId
    plan: int
    range: PlannedRange
    kind: Kind
    wal_bytes: int = 0
    file: DataFile | None = None
    quarantined: Sequence[Quarantined] = ()
    sentence: str = ""
    missing: str = ""
    """The segment that is not in the store."""

    @property
    def rows(self) -> int:
        return 0 if self.file is None else self.file.rows

    @property
    def unaccounted(self) -> int:
        """Offsets of the slice that are neither a row nor set aside: none, when all is well."""
        place = Run(self.range.first, self.range.next)
        aside = within([Run(each.first, each.next) for each in self.quarantined], [place])
        return place.next - place.first - self.rows - size_of(aside)

    def to_arrow(self) -> pa.RecordBatch:
        body = {
            "file": None if self.file is None else self.file.to_json(),
            "quarantined": self.quarantined,
            "sentence": self.sentence,
            "missing": self.missing,
        }
        size = 0 if self.file is None else self.file.size
        row = [
            *(str(self.topic_id), self.plan, *self.range, str(self.kind)),
            *(self.rows, size, self.wal_bytes, int(self.file is not None), json.dumps(body)),
        ]
        return pa.RecordBatch.from_pylist([dict(zip(_RESULT.names, row, strict=True))], _RESULT)

    @classmethod
    def of(cls, row: Mapping[str, object]) -> Self:
        body = json.loads(str(row["body"]))
        file = body["file"]
        return cls(
            topic_id=TopicId(UUID(str(row["topic_id"]))),
            plan=int(str(row["plan"])),
            range=PlannedRange(*(int(str(row[name])) for name in ("partition", "first", "next"))),
            kind=Kind(str(row["kind"])),
            wal_bytes=int(str(row["wal_bytes"])),
            file=None if file is None else DataFile.from_json(file),
            quarantined=tuple(Quarantined(*each) for each in body["quarantined"]),
            sentence=body["sentence"],
            missing=body["missing"],
        )


class Movable(NamedTuple):
    """What of a topic's outcomes can be committed, and what stands in the way of the rest."""

    ranges: tuple[PlannedRange, ...]
    files: tuple[DataFile, ...]
    quarantined: tuple[Quarantined, ...]
    stopped: tuple[Outcome, ...]


def movable(outcomes: Sequence[Outcome], table_ends: Mapping[int, int]) -> Movable:
    """Of each partition, the written slices that follow its table end without a gap.

    One whose rows are not as many as its offsets is not committed, whatever its task says: after a
    commit the WAL is forgotten, and with it the only other copy.
    """
    ends = dict(table_ends)
    ranges: dict[int, PlannedRange] = {}
    moved: list[Outcome] = []
    stopped: dict[int, Outcome] = {}
    for outcome in map(_accounted, sorted(outcomes, key=lambda each: each.range)):
        partition, first, following = outcome.range
        # A slice that begins elsewhere is old: somebody else has moved the end since it was cut.
        if partition in stopped or first != ends[partition]:
            continue
        if outcome.kind is not Kind.WRITTEN:
            stopped[partition] = outcome
        else:
            begun = ranges.get(partition, outcome.range)
            ranges[partition] = begun._replace(next=following)
            ends[partition] = following
            moved.append(outcome)
    return Movable(
        tuple(ranges.values()),
        tuple(outcome.file for outcome in moved if outcome.file is not None),
        tuple(each for outcome in moved for each in outcome.quarantined),
        tuple(stopped.values()),
    )


def _accounted(outcome: Outcome) -> Outcome:
    if outcome.kind is not Kind.WRITTEN or not outcome.unaccounted:
        return outcome
    sentence = (
        f"of {outcome.range.next - outcome.range.first} offsets {outcome.rows} became rows, and "
        f"{outcome.unaccounted} are neither rows nor set aside"
    )
    return replace(outcome, kind=Kind.CORRUPT, sentence=sentence)
