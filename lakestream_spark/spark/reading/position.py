"""How far a reader is: an offset of each partition of each topic. Pure, and JSON for Spark.

What always holds: offsets belong to a topic's id, so one that is deleted and created again under
the same name is not taken for the old one.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from lakestream_spark.core.ids import TopicId


class TopicPosition(NamedTuple):
    """The next offset of each partition of a topic."""

    topic_id: TopicId
    offsets: Mapping[int, int]


Position: TypeAlias = Mapping[str, TopicPosition]
"""By the names of the topics."""


def to_json(position: Position) -> dict[str, Any]:
    """For Spark's checkpoint."""
    return {
        topic: {
            "id": str(own.topic_id),
            "offsets": {
                str(partition): offset for partition, offset in sorted(own.offsets.items())
            },
        }
        for topic, own in sorted(position.items())
    }


def from_json(stored: Mapping[str, Any]) -> dict[str, TopicPosition]:
    return {
        topic: TopicPosition(
            TopicId(UUID(own["id"])),
            {int(partition): offset for partition, offset in own["offsets"].items()},
        )
        for topic, own in stored.items()
    }


def begun(start: Position, topic: str, end: TopicPosition, partition: int) -> int:
    """Where a partition begins after `start`: at 0 when it, or its topic, is new since then."""
    own = start.get(topic)
    if own is None or own.topic_id != end.topic_id:
        return 0
    return own.offsets.get(partition, 0)


def at_most(start: Position, end: Position, count: int) -> dict[str, TopicPosition]:
    """An end with about `count` offsets after the start, shared as what is left is distributed.

    Every partition with something left gets at least one, as from Spark's `kafka` source: beside a
    large backlog a quiet partition would get nothing for as long as that lasts.
    """
    left = {
        (topic, partition): after - begun(start, topic, own, partition)
        for topic, own in end.items()
        for partition, after in own.offsets.items()
    }
    total = sum(each for each in left.values() if each > 0)
    if total <= count:
        return dict(end)
    shares = {place: max(1, each * count // total) for place, each in left.items() if each > 0}
    return {
        topic: own._replace(
            offsets={
                partition: after - left[topic, partition] + shares[topic, partition]
                if (topic, partition) in shares
                else after
                for partition, after in own.offsets.items()
            }
        )
        for topic, own in end.items()
    }
