"""What of a topic goes into the next batch, while some of its partitions are in trouble."""

from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID

import pytest

from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata.backlog import PartitionBacklog, TopicBacklog
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.due import CompactPolicy
from lakestream_spark.spark.troubles import Troubles
from lakestream_spark.spark.turns import Turns
from tests.support.clock import SimulatedClock

NOW_MS = 1_000_000
LAG_MS = 60_000
POLICY = CompactPolicy(file_bytes=100, batch_bytes=400)
NOBODY = cast("Any", None)  # Nothing is told to a person.
ORDERS = Topic(
    id=TopicId(UUID(int=1)),
    name="orders",
    partitions=3,
    replication_factor=1,
    config={"lakestream.table.lag.ms": str(LAG_MS)},
    created_ms=0,
)
STUCK_S = 0.4
RETRIED_S = 0.6


def partition(index: int, age_ms: int, *, flush: bool = False) -> PartitionBacklog:
    return PartitionBacklog(PlannedRange(index, 0, 9), NOW_MS - age_ms, 9 if flush else None)


OLD, NEW = LAG_MS, 10


@pytest.mark.parametrize(
    ("later_s", "partitions", "sizes", "expected"),
    [
        # Partition 0 failed a moment ago: however old, wanted or large, its siblings wait.
        (STUCK_S, [partition(0, OLD), partition(1, NEW)], {}, []),
        (STUCK_S, [partition(0, NEW, flush=True), partition(1, NEW)], {}, []),
        (STUCK_S, [partition(0, NEW), partition(1, NEW)], {0: 1000, 1: 99}, []),
        (STUCK_S, [partition(0, NEW), partition(1, NEW), partition(2, NEW)], {0: 390, 1: 9}, []),
        (STUCK_S, [partition(0, OLD)], {}, []),
        # They go when they are due themselves.
        (STUCK_S, [partition(0, OLD), partition(1, OLD), partition(2, NEW)], {}, [1, 2]),
        (STUCK_S, [partition(0, OLD), partition(1, NEW, flush=True)], {}, [1]),
        (STUCK_S, [partition(0, OLD), partition(1, NEW)], {1: 100}, [1]),
        # After its rest it is tried again, alone unless they are due as well.
        (RETRIED_S, [partition(0, OLD), partition(1, NEW)], {0: 1000}, [0]),
        (RETRIED_S, [partition(0, OLD, flush=True), partition(1, NEW)], {}, [0]),
        (RETRIED_S, [partition(0, OLD), partition(1, OLD)], {}, [0, 1]),
        (RETRIED_S, [partition(1, NEW)], {}, []),
    ],
)
async def test_a_stuck_partition_gives_its_siblings_no_turn(
    later_s: float,
    partitions: list[PartitionBacklog],
    sizes: Mapping[int, int],
    expected: list[int],
) -> None:
    clock = SimulatedClock()
    troubles = Troubles(NOBODY, clock)
    await troubles.partition_failed(NOBODY, ORDERS, 0, 0, "damaged", lost=False)
    await clock.advance(later_s)
    by_place = {TopicPartition(ORDERS.id, index): size for index, size in sizes.items()}
    found = Turns(troubles, POLICY).of(ORDERS, TopicBacklog(tuple(partitions)), by_place, NOW_MS)
    assert sorted(own.partition for own in (found.ranges if found else ())) == expected
