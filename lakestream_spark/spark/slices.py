"""A slice: the offsets of one partition that one task moves into one file, and where they lie."""

import json
from dataclasses import dataclass
from typing import Any, Self
from uuid import UUID

from lakestream_spark.core.ids import SegmentId, TopicId
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.wal.ports import ExtentLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Offsets [first, next) of a partition, with the extents that hold them."""

    topic_id: TopicId
    topic_name: str
    plan: int
    range: PlannedRange
    extents: tuple[ExtentLocation, ...]

    @property
    def bytes(self) -> int:
        """The WAL bytes of its extents."""
        return sum(extent.length for extent in self.extents)

    def to_json(self) -> str:
        return json.dumps(
            [str(self.topic_id), self.topic_name, self.plan, self.range, self.extents]
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        topic_id, topic_name, plan, planned, extents = json.loads(text)
        return cls(
            topic_id=TopicId(UUID(topic_id)),
            topic_name=topic_name,
            plan=plan,
            range=PlannedRange(*planned),
            extents=tuple(_extent(fields) for fields in extents),
        )


def _extent(fields: list[Any]) -> ExtentLocation:
    return ExtentLocation._make([*fields[:2], SegmentId(*fields[2]), *fields[3:]])
