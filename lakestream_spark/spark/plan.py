"""The micro-batch is the plan: one number, whose row in the metadata store holds the ranges.

What always holds: a plan names what was acknowledged and not in a table when it was made, within
its bytes; only the newest plan of a job counts, and a lost checkpoint loses nothing; what a plan
names and the table has by now is left out when its slices are cut.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from lakestream_spark.core.errors import UnknownTopic
from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.due import share_out
from lakestream_spark.spark.slices import Slice
from lakestream_spark.wal.ports import ExtentLocation, Located, Wanted

NO_PLAN: Final = 0
_LOCATE_BYTES: Final = 64 * 1024 * 1024
# A batch is cut into about so many tasks, so that all cores have work until its end, ...
_TASKS: Final = 8
# ... unless they would be so small that starting them costs more than it gains.
_SMALL_TASK_BYTES: Final = 4 * 1024 * 1024
_FEW_SLICES: Final = 16

Ranges = Mapping[TopicId, Sequence[PlannedRange]]


async def bounded(
    metadata: Metadata, ranges: Ranges, max_bytes: int, *, known: Mapping[TopicPartition, int]
) -> Ranges:
    """The beginnings of the ranges whose extents fit into `max_bytes`, shared fairly.

    The sizes of partitions are asked for unless all of them are known.
    """
    wanted = {
        TopicPartition(topic_id, planned.partition): planned
        for topic_id, own in ranges.items()
        for planned in own
    }
    is_known = all(place in known for place in wanted)
    sizes = known if is_known else await metadata.topics.wal_bytes(list(ranges))
    shares = share_out({place: sizes.get(place, 0) for place in wanted}, max_bytes)
    located = await metadata.extents.locate_many(
        [Wanted(place, planned.first, shares[place]) for place, planned in wanted.items()]
    )
    cut: dict[TopicId, list[PlannedRange]] = {}
    for (place, planned), found in zip(wanted.items(), located, strict=True):
        if isinstance(found, Located) and found.extents:
            end = min(planned.next, found.extents[-1].next_offset)
            if end > planned.first:
                cut.setdefault(place.topic_id, []).append(planned._replace(next=end))
    return cut


async def slices_of(metadata: Metadata, number: int, slice_bytes: int) -> list[Slice]:
    """What is still to be done of a plan, no slice larger than `slice_bytes` plus an extent."""
    plan = await metadata.tables.plan(number)
    if plan is None:
        return []
    slices: list[Slice] = []
    for topic_id, ranges in plan.ranges.items():
        try:
            topic = await metadata.topics.get_by_id(topic_id)
            ends = await metadata.tables.ends(topic.id)
        except UnknownTopic:
            continue
        for planned in ranges:
            left = planned._replace(first=max(planned.first, ends[planned.partition].table_end))
            if left.first < left.next:
                extents = await extents_of(metadata, topic.id, left)
                slices += _cut(topic, number, left, extents, slice_bytes)
    return slices


def tasks_of(slices: Sequence[Slice], task_bytes: int) -> list[list[Slice]]:
    """Slices together in tasks of at most about `task_bytes`: small partitions share a task."""
    total = sum(piece.bytes for piece in slices)
    most_bytes = min(task_bytes, max(total // _TASKS, _SMALL_TASK_BYTES))
    most_slices = max(len(slices) // _TASKS, _FEW_SLICES)  # A file costs time, however small.
    tasks: list[list[Slice]] = []
    room = 0
    for piece in slices:
        if not tasks or piece.bytes > room or len(tasks[-1]) >= most_slices:
            tasks.append([])
            room = most_bytes
        tasks[-1].append(piece)
        room -= piece.bytes
    return tasks


def _cut(
    topic: Topic,
    plan: int,
    whole: PlannedRange,
    extents: Sequence[ExtentLocation],
    slice_bytes: int,
) -> Iterator[Slice]:
    """Consecutive slices of a range, as even as extents allow: no small file at its end."""
    total = sum(extent.length for extent in extents)
    parts = max(1, -(-total // slice_bytes))
    held: list[ExtentLocation] = []
    size, first, border = 0, whole.first, total / parts
    for extent in extents:
        if held and size >= border:
            yield _slice(
                topic, plan, PlannedRange(whole.partition, first, extent.base_offset), held
            )
            held, first = [], extent.base_offset
            border = (1 + size * parts // total) * total / parts
        held.append(extent)
        size += extent.length
    if held:
        end = min(whole.next, held[-1].next_offset)
        yield _slice(topic, plan, PlannedRange(whole.partition, first, end), held)


def _slice(
    topic: Topic, plan: int, planned: PlannedRange, extents: Sequence[ExtentLocation]
) -> Slice:
    return Slice(
        topic_id=topic.id,
        topic_name=topic.name,
        plan=plan,
        range=planned,
        extents=tuple(extents),
    )


async def extents_of(
    metadata: Metadata, topic_id: TopicId, planned: PlannedRange
) -> list[ExtentLocation]:
    """Where a range lies now."""
    partition = TopicPartition(topic_id, planned.partition)
    extents: list[ExtentLocation] = []
    offset = planned.first
    while offset < planned.next:
        found = (await metadata.extents.locate(partition, offset, _LOCATE_BYTES)).extents
        if not found:
            break
        extents += (extent for extent in found if extent.base_offset < planned.next)
        offset = found[-1].next_offset
    return extents
