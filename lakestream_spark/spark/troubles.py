"""What failed, how long it rests before it is tried again, and what a person is told of it.

What always holds: a failure rests its own topic or partition and nothing else; what a person must
mend is a problem in the metadata store until it is seen to be mended; trying again never harms.
"""

import logging
from collections.abc import Collection
from typing import Final, TypeAlias

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Corrupt, Misconfigured, RedTable
from lakestream_spark.core.ids import TopicId
from lakestream_spark.core.logs import event
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.problems import Problem, Problems
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.unforeseen import is_foreseen, told

_FIRST_REST_S: Final = 0.5
_LONGEST_REST_S: Final = 30.0
_RESTORE: Final = (
    "restore the WAL object named above from a back-up or a bucket version; "
    "compaction tries again by itself"
)
_READ_THE_LOG: Final = (
    "the log of the compaction says where it comes from; compaction tries again by itself"
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

    def is_troubled(self, topic_id: TopicId, partition: int | None = None) -> bool:
        """Whether it failed when it was last tried, resting or not."""
        return (topic_id, partition) in self._rest_s

    def topic_failed(self, topic_id: TopicId, error: Exception) -> None:
        """Nobody knows more of it than its id: rest."""
        self._rest((topic_id, None))
        _tell("a topic was not committed", topic_id, error)

    async def table_failed(self, lease: Lease, topic: Topic, error: Exception) -> None:
        """Nothing was committed to the table, or nobody knows: rest, and tell a person unless it
        will pass."""
        self._rest((topic.id, None))
        _tell("a table was not committed", topic.name, error)
        if isinstance(error, RedTable):
            await self._report_red(lease, topic, error)
        elif isinstance(error, Corrupt | Misconfigured) or not is_foreseen(error):
            sentence = told(error)
            if not is_foreseen(error):
                sentence = f"an error that nobody foresaw keeps records from the table: {sentence}"
            await self._problems.report(
                lease,
                Problem(
                    topic_id=topic.id,
                    partition=None,
                    sentence=sentence,
                    remedy=_READ_THE_LOG,
                    since_ms=self._clock.wall_ms(),
                ),
            )

    async def _report_red(self, lease: Lease, topic: Topic, error: RedTable) -> None:
        snapshot_id = error.facts.get("snapshot_id")
        problem = Problem(
            topic_id=topic.id,
            partition=None,
            sentence=str(error),
            remedy=str(error.facts.get("remedy", "")),
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

    async def table_is_settled(self, lease: Lease, topic: Topic) -> None:
        """Nothing is left of earlier commits; the next one may still fail as the last one did, and
        rests longer then."""
        await self._clear(lease, topic.id, {None})

    async def is_well(self, lease: Lease, topic: Topic, moved: Collection[int]) -> None:
        """The table took a commit with these partitions: nothing stops them any more."""
        places = {None, *moved}
        for partition in places:
            self._rest_s.pop((topic.id, partition), None)
        await self._clear(lease, topic.id, places)

    async def _clear(
        self, lease: Lease, topic_id: TopicId, partitions: Collection[int | None]
    ) -> None:
        for partition in partitions:
            self._rests_until.pop((topic_id, partition), None)
        # Listed once, however many partitions there are.
        for problem in await self._problems.list(topic_id):
            if problem.partition in partitions:
                mended = {"topic": topic_id, "partition": problem.partition}
                event(_log, logging.INFO, "a problem is mended", **mended)
                await self._problems.clear(lease, topic_id, problem.partition)

    def _rest(self, place: _Place) -> None:
        rest_s = self._rest_s.get(place, _FIRST_REST_S)
        self._rests_until[place] = self._clock.monotonic() + rest_s
        self._rest_s[place] = min(2 * rest_s, _LONGEST_REST_S)


def _tell(sentence: str, topic: object, error: Exception) -> None:
    if is_foreseen(error):
        event(_log, logging.ERROR, sentence, topic=topic, error=error)
    else:
        _log.error("%s: topic %s", sentence, topic, exc_info=error)
