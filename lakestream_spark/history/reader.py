"""Reads of tables as Kafka streams: offsets -> plan -> sections -> blocks -> whole batches.

What always holds: an offset at or beyond the ends of a plan means a newer plan, and then a
retriable error; a file that is gone means a newer plan as well, which the reader never notices; a
block is encoded once however many want it, and those after it while the client takes this one.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Final, TypeVar

import pyarrow.compute as pc

from lakestream_spark.core.errors import Corrupt, Unavailable
from lakestream_spark.history.about import TableFacts
from lakestream_spark.history.ahead import ReadAhead, Upcoming
from lakestream_spark.history.answer import AnswerBuilder, batches_in
from lakestream_spark.history.blocks import Block, BlockCache, Source
from lakestream_spark.history.look import Look
from lakestream_spark.history.messages import Question
from lakestream_spark.history.plan import Plan
from lakestream_spark.history.plans import Plans, TopicPlan, Wait
from lakestream_spark.history.sections import RowBlock
from lakestream_spark.history.shelf import Found, Shelf
from lakestream_spark.history.tally import Counted, Tally
from lakestream_spark.history.times import TimeSearch
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import TimestampedOffset
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.arrow_rows import batches_of
from lakestream_spark.table.columns import OFFSET
from lakestream_spark.table.outage import OUTAGES
from lakestream_spark.table.spec import CatalogSpec

_BLOCKS_SHARE: Final = 2
_SECTIONS_SHARE: Final = 4
_AHEAD_BLOCKS: Final = 4
_TRIES: Final = 3
_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
    # What the producer took is not kept: the codec that costs the least for its size.
    "producer": Codec.LZ4,
}

_ASKED: Final = {
    Source.KEPT: Counted.HITS,
    Source.AWAITED: Counted.WAITS,
    Source.MADE: Counted.MISSES,
}

T = TypeVar("T")


class TableReader:
    """All tables of a catalog; every call blocks, and may come from any thread."""

    def __init__(
        self,
        spec: CatalogSpec,
        memory_bytes: int,
        *,
        patience_s: float | None = None,
        wait: Wait = Look.ended,
    ) -> None:
        self.tally: Final = Tally()
        self._plans = Plans(spec, tally=self.tally, patience_s=patience_s, wait=wait)
        self._shelf = Shelf(memory_bytes // _SECTIONS_SHARE, self.tally)
        self._blocks = BlockCache(memory_bytes // _BLOCKS_SHARE)
        self._ahead = ReadAhead(self._blocks, self._upcoming, _packed, self.tally)

    @property
    def kept_bytes(self) -> int:
        """Of blocks that are ready for the next reader."""
        return self._blocks.held_bytes

    def open_ahead(self) -> None:
        """Open the catalog before the first question."""
        self._plans.open_ahead()

    def close(self) -> None:
        self._ahead.close()
        self._plans.close()

    def read(self, question: Question) -> bytes:
        """Whole batches from the one with the offset on, about `limit` bytes (at least one)."""
        codec = _CODECS[TopicConfig.of(question.config).compression]

        def gather(plan: Plan) -> AnswerBuilder:
            return self._gather(plan, question, codec)

        built = self._with_plan(question, gather)
        self.tally.add(Counted.ROWS, built.records)
        self._ahead.answered(question, built.next, codec)
        return built.finish()

    def at_time(self, question: Question) -> TimestampedOffset | None:
        """The first row from the offset on whose time is not before `limit`."""
        return self._with_plan(
            question, lambda plan: self._times(plan, question).at_or_after(question.limit)
        )

    def newest(self, question: Question) -> TimestampedOffset | None:
        """The first row from the offset on that has the newest time."""
        return self._with_plan(question, lambda plan: self._times(plan, question).newest())

    def about(self, question: Question) -> TableFacts:
        """What the table's newest lawful snapshot holds, and the snapshots before it."""
        plan = self._topic(question).current()
        return TableFacts.of(plan.table, [file.size for file in plan.data], plan.snapshots)

    def newest_plan(self, topic: Topic) -> Plan:
        """The files of the topic's table as it is now; raises `Unavailable` when it has none."""
        return self._plans.of(topic.id, topic.name, dict(topic.config)).newer()

    def _times(self, plan: Plan, question: Question) -> TimeSearch:
        place = (question.partition, question.offset)
        return TimeSearch(self._shelf.footers, plan, *place, self.tally)

    def _topic(self, question: Question) -> TopicPlan:
        return self._plans.of(question.topic_id, question.topic, question.config)

    def _with_plan(self, question: Question, work: Callable[[Plan], T]) -> T:
        """Do the work by a plan that reaches the offset and whose files are there."""
        topic = self._topic(question)
        plan = topic.current()
        gone: FileNotFoundError | None = None
        for _ in range(_TRIES):
            if gone is not None or question.reach > plan.end(question.partition):
                plan = topic.newer()
            _check_end(plan, question)
            try:
                return work(plan)
            except FileNotFoundError as error:
                gone = error
            except OUTAGES as error:
                raise Unavailable(f"the table cannot be read: {error!r}") from error
        raise Corrupt(f"data loss: a file of the table is not there: {gone}", topic=question.topic)

    def _gather(self, plan: Plan, question: Question, codec: Codec) -> AnswerBuilder:
        partition, end = question.partition, plan.end(question.partition)
        built = AnswerBuilder(question.offset, end, question.limit)
        try:
            while built.next < end and not built.full:
                found = self._shelf.at_or_after(plan, partition, built.next)
                if found is None:
                    break
                block = self._block(found, built.next, codec)
                if block is None:
                    built.skip_to(found.section.last + 1)
                else:
                    built.add(block)
            built.skip_to(self._shelf.border(plan, partition, built.next))
        except (FileNotFoundError, Corrupt):
            if built.next == question.offset:
                raise
            # What lies before a lost or damaged file is served; who reads on is told.
        return built

    def _block(self, found: Found, offset: int, codec: Codec) -> Block | None:
        number = found.section.find(offset)
        if number is None:
            return None

        def make() -> Block:
            return _packed(found.section.load(number), codec)

        block, source = self._blocks.get(_key(found, number, codec), make)
        self.tally.add(_ASKED[source])
        return block

    def _upcoming(self, question: Question, offset: int, codec: Codec) -> Iterator[Upcoming]:
        """The blocks from the offset on that somebody who reads on will ask for next."""
        plan = self._topic(question).current()
        for _ in range(_AHEAD_BLOCKS):
            if offset >= plan.end(question.partition):
                return
            found = self._shelf.at_or_after(plan, question.partition, offset)
            number = None if found is None else found.section.find(offset)
            if found is None or number is None:
                return
            yield Upcoming(found.section, number, _key(found, number, codec))
            offset = found.section.border(number)


def _key(found: Found, number: int, codec: Codec) -> Hashable:
    return (found.key, codec, number)


def _packed(block: RowBlock, codec: Codec) -> Block:
    """The rows of a block as batches."""
    rows, first, after = block
    if not rows.num_rows:
        return Block((), first, after)
    # The hole after the last row is covered by the answer, which knows the plan.
    last = pc.max(rows[OFFSET]).as_py()
    encoded = list(batches_of(rows, (first, last + 1), codec=codec))
    return Block(batches_in(encoded), first, after)


def _check_end(plan: Plan, question: Question) -> None:
    end = plan.end(question.partition)
    if question.reach > end:
        raise Unavailable(
            "the table does not reach this offset yet",
            topic=question.topic,
            partition=question.partition,
            offset=question.reach - 1,
            end=end,
        )
