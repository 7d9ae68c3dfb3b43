"""The micro-batch is the plan: one number, whose row in the metadata store holds the ranges.

What always holds: a plan covers what was acknowledged and not yet in a table when it was made, so
only the newest plan counts, and a lost checkpoint loses nothing; what a plan names and the table
has by now is left out when its slices are cut.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from lakestream_spark.core.errors import UnknownTopic
from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.slices import Slice
from lakestream_spark.wal.ports import ExtentLocation

NO_PLAN: Final = 0
_LOCATE_BYTES: Final = 64 * 1024 * 1024

Ranges = Mapping[TopicId, Sequence[PlannedRange]]


async def pending(metadata: Metadata) -> Ranges:
    """What lies between the table end and the last stable offset, by topic."""
    ranges = {}
    for topic in await metadata.topics.list():
        ends = await metadata.tables.ends(topic.id)
        own = [
            PlannedRange(partition, each.table_end, each.last_stable)
            for partition, each in ends.items()
            if each.table_end < each.last_stable
        ]
        if own:
            ranges[topic.id] = own
    return ranges


async def newest_plan(metadata: Metadata) -> int:
    """The number of a plan for everything pending; the one before when nothing is."""
    ranges = await pending(metadata)
    if ranges:
        return await metadata.tables.create_plan(ranges)
    plan = await metadata.tables.latest_plan()
    return NO_PLAN if plan is None else plan.number


async def slices_of(metadata: Metadata, number: int) -> list[Slice]:
    """What is still to be done of a plan."""
    plan = await metadata.tables.plan(number)
    if plan is None:
        return []
    slices: list[Slice] = []
    for topic_id, ranges in plan.ranges.items():
        try:
            topic = await metadata.topics.get_by_id(topic_id)
        except UnknownTopic:
            continue
        slices += await _slices_of_topic(metadata, topic, number, ranges)
    return slices


async def _slices_of_topic(
    metadata: Metadata, topic: Topic, plan: int, ranges: Sequence[PlannedRange]
) -> list[Slice]:
    ends = await metadata.tables.ends(topic.id)
    slices = []
    for planned in ranges:
        left = planned._replace(first=max(planned.first, ends[planned.partition].table_end))
        if left.first < left.next:
            slices.append(
                Slice(
                    topic_id=topic.id,
                    topic_name=topic.name,
                    plan=plan,
                    range=left,
                    extents=await _locate(metadata, topic, left),
                )
            )
    return slices


async def _locate(
    metadata: Metadata, topic: Topic, planned: PlannedRange
) -> tuple[ExtentLocation, ...]:
    partition = TopicPartition(topic.id, planned.partition)
    extents: list[ExtentLocation] = []
    offset = planned.first
    while offset < planned.next:
        found = (await metadata.extents.locate(partition, offset, _LOCATE_BYTES)).extents
        if not found:
            break
        extents += (extent for extent in found if extent.base_offset < planned.next)
        offset = found[-1].next_offset
    return tuple(extents)
