"""Reading ahead: in order for a partition, few blocks at once, and no failure of its own."""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from uuid import UUID

import pytest

from lakestream_spark.core.ids import TopicId
from lakestream_spark.history.ahead import ReadAhead, Upcoming
from lakestream_spark.history.blocks import Block, BlockCache
from lakestream_spark.history.messages import Question, What
from lakestream_spark.history.sections import RowBlock
from lakestream_spark.history.tally import Tally
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.table.columns import ARROW_SCHEMA
from tests.support.ingress_process import eventually

MANY = 64


@dataclass
class Blocks:
    """A section that notes what is loaded, each block of one offset."""

    loaded: list[int] = field(default_factory=list)
    broken: frozenset[int] = frozenset()
    last: int = MANY - 1

    def find(self, offset: int) -> int:
        return offset

    def border(self, block: int) -> int:
        return block + 1

    def load(self, block: int) -> RowBlock:
        self.loaded.append(block)
        if block in self.broken:
            raise OSError("no answer")
        return RowBlock(ARROW_SCHEMA.empty_table(), block, block + 1)


@dataclass
class Reader:
    """What answers ask of the read-ahead; packing waits until it is let go on."""

    section: Blocks = field(default_factory=Blocks)
    cache: BlockCache = field(default_factory=lambda: BlockCache(1 << 20))
    go_on: threading.Event = field(default_factory=threading.Event)
    packed: list[int] = field(default_factory=list)

    def find(self, _: Question, offset: int, codec: Codec) -> Iterator[Upcoming]:
        for number in range(offset, MANY):
            yield Upcoming(self.section, number, number)

    def pack(self, rows: RowBlock, _: Codec) -> Block:
        assert self.go_on.wait(60)
        self.packed.append(rows.first)
        return Block((), rows.first, rows.next)

    def ahead(self) -> ReadAhead:
        return ReadAhead(self.cache, self.find, self.pack, Tally())


def question(offset: int) -> Question:
    return Question(
        what=What.READ,
        topic_id=TopicId(UUID(int=1)),
        topic="orders",
        config={},
        partition=0,
        offset=offset,
        reach=offset + 1,
    )


def read_on(ahead: ReadAhead, *offsets: int) -> None:
    for before, after in pairwise(offsets):
        ahead.answered(question(before), after, Codec.NONE)


def test_nothing_is_made_for_who_reads_once() -> None:
    reader = Reader()
    ahead = reader.ahead()
    read_on(ahead, 0, 1)
    ahead.close()
    assert reader.section.loaded == []


def test_blocks_are_decoded_once_each_and_in_order_however_many_answers_there_are() -> None:
    reader = Reader()
    reader.go_on.set()
    ahead = reader.ahead()
    read_on(ahead, *range(20))
    eventually(lambda: len(reader.packed) == MANY - 2)
    ahead.close()
    assert reader.section.loaded == list(range(2, MANY))


def test_few_blocks_are_decoded_and_not_packed() -> None:
    reader = Reader()
    ahead = reader.ahead()
    most = 2 * (os.cpu_count() or 1)
    read_on(ahead, 0, 1, 2)
    eventually(lambda: len(reader.section.loaded) == most)
    threading.Event().wait(0.2)
    assert len(reader.section.loaded) == most
    reader.go_on.set()
    eventually(lambda: len(reader.packed) == MANY - 2)
    ahead.close()


@pytest.mark.timeout(120)
def test_a_block_that_fails_is_the_next_asker_s_and_reading_ahead_goes_on_afterwards() -> None:
    reader = Reader(section=Blocks(broken=frozenset({5})))
    reader.go_on.set()
    ahead = reader.ahead()
    read_on(ahead, 0, 1, 2)
    eventually(lambda: 5 in reader.section.loaded)
    with pytest.raises(OSError, match="no answer"):
        reader.cache.get(5, lambda: reader.pack(reader.section.load(5), Codec.NONE))
    read_on(ahead, 6, 7, 8)
    eventually(lambda: MANY - 1 in reader.packed)
    ahead.close()
