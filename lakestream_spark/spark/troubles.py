"""What failed, how long it rests before it is tried again, and what a person is told of it.

What always holds: a failure rests its own topic or partition and nothing else; what a person must
mend is a problem in the metadata store until it is seen to be mended; trying again never harms.
"""

import logging
from typing import Final, TypeAlias

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import LakestreamError, RedTable
from lakestream_spark.core.ids import TopicId
from lakestream_spark.core.logs import event
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.problems import Problem, Problems
from lakestream_spark.metadata.topics import Topic

_FIRST_REST_S: Final = 0.5
_LONGEST_REST_S: Final = 30.0
_RESTORE: Final = (
    "restore the WAL object named above from a back-up or a bucket version; "
    "compaction tries again by itself"
)
_log: Final = logging.getLogger(__name__)

_Place: TypeAlias = tuple[TopicId, int | None]


class Troubles:
    """Of one job; None for the partition means the whole table."""

    def __init__(self, problems: Problems, clock: Clock) -> None:
        self._problems = problems
        self._clock = clock
        self._rests_until: dict[_Place, float] = {}
        self._rest_s: dict[_Place, float] = {}

    def is_resting(self, topic_id: TopicId, partition: int | None = None) -> bool:
        return self._clock.monotonic() < self._rests_until.get((topic_id, partition), 0.0)

    async def table_failed(self, lease: Lease, topic: Topic, error: LakestreamError) -> None:
        """Nothing was committed to the table, or nobody knows: rest, and tell if it is red."""
        self._rest((topic.id, None))
        event(_log, logging.ERROR, "a table was not committed", topic=topic.name, error=error)
        if isinstance(error, RedTable):
            facts = dict(error.facts)
            snapshot_id = facts.get("snapshot_id")
            problem = Problem(
                topic_id=topic.id,
                partition=None,
                sentence=str(error),
                remedy=str(facts.get("remedy", "")),
                since_ms=self._clock.wall_ms(),
                snapshot_id=snapshot_id if isinstance(snapshot_id, int) else None,
            )
            await self._problems.report(lease, problem)

    async def partition_failed(
        self, lease: Lease, topic: Topic, partition: int, offset: int, sentence: str, *, lost: bool
    ) -> None:
        """A slice could not be moved; `lost` says that its bytes are damaged or missing."""
        self._rest((topic.id, partition))
        event(
            _log,
            logging.ERROR,
            "a partition was not moved",
            topic=topic.name,
            partition=partition,
            offset=offset,
            error=sentence,
        )
        if lost:
            await self._problems.report(
                lease,
                Problem(
                    topic_id=topic.id,
                    partition=partition,
                    sentence=sentence,
                    remedy=_RESTORE,
                    since_ms=self._clock.wall_ms(),
                    offset=offset,
                ),
            )

    async def table_is_well(self, lease: Lease, topic: Topic) -> None:
        await self._well(lease, (topic.id, None))

    async def partition_is_well(self, lease: Lease, topic: Topic, partition: int) -> None:
        await self._well(lease, (topic.id, partition))

    async def _well(self, lease: Lease, place: _Place) -> None:
        self._rests_until.pop(place, None)
        self._rest_s.pop(place, None)
        topic_id, partition = place
        if any(p.partition == partition for p in await self._problems.list(topic_id)):
            event(_log, logging.INFO, "a problem is mended", topic=topic_id, partition=partition)
            await self._problems.clear(lease, topic_id, partition)

    def _rest(self, place: _Place) -> None:
        rest_s = self._rest_s.get(place, _FIRST_REST_S)
        self._rests_until[place] = self._clock.monotonic() + rest_s
        self._rest_s[place] = min(2 * rest_s, _LONGEST_REST_S)
