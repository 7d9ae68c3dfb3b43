"""Blocks made before they are asked for, for whoever reads one answer after the other.

    decode: one thread at a time for a partition, in order ─► pack: all cores

What always holds: blocks of a partition are decoded in their order, because going back in a row
group costs its whole beginning; blocks that are decoded and not packed are few, whoever reads; what
fails here fails once more for the one who asks, and only then is it told.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from lakestream_spark.history.blocks import Block, BlockCache
from lakestream_spark.history.messages import Question
from lakestream_spark.history.sections import RowBlock, Section
from lakestream_spark.history.tally import Counted, Tally
from lakestream_spark.kafka.codecs import Codec

_MAX_FOLLOWED: Final = 4096
Place = tuple[Hashable, int]


class Upcoming(NamedTuple):
    """A block of a section, and its key in the cache."""

    section: Section
    number: int
    key: Hashable


Find = Callable[[Question, int, Codec], Iterable[Upcoming]]
"""The blocks from an offset on that are worth making now."""
Pack = Callable[[RowBlock, Codec], Block]


class ReadAhead:
    """Notices who reads on, and makes what they will ask for."""

    def __init__(self, blocks: BlockCache, find: Find, pack: Pack, tally: Tally) -> None:
        self._blocks = blocks
        self._find = find
        self._pack = pack
        self._tally = tally
        threads = os.cpu_count() or 1
        self._decoding = ThreadPoolExecutor(threads, thread_name_prefix="read-ahead")
        self._packing = ThreadPoolExecutor(threads, thread_name_prefix="pack-ahead")
        self._room = threading.Semaphore(2 * threads)
        self._lock = threading.Lock()
        self._followed: OrderedDict[tuple[Place, int], bool] = OrderedDict()
        """Where answers ended: who asks from there on is reading on."""
        self._wanted: dict[Place, tuple[Question, int, Codec]] = {}
        self._busy: set[Place] = set()

    def answered(self, question: Question, following: int, codec: Codec) -> None:
        """An answer ended at the offset `following`."""
        place = (question.topic_id, question.partition)
        with self._lock:
            reads_on = self._followed.pop((place, question.offset), False)
            self._followed[(place, following)] = True
            if len(self._followed) > _MAX_FOLLOWED:
                self._followed.popitem(last=False)
            if not reads_on:
                return
            self._wanted[place] = (question, following, codec)
            if place in self._busy:
                return
            self._busy.add(place)
        self._decoding.submit(self._serve, place)

    def close(self) -> None:
        self._decoding.shutdown()
        self._packing.shutdown()

    def _serve(self, place: Place) -> None:
        """What is wanted of a partition, until nothing is."""
        while (wanted := self._next(place)) is not None:
            # Whatever it is: who asks for the block meets it, and is told.
            with suppress(Exception):
                for upcoming in self._find(*wanted):
                    if self._blocks.begin(upcoming.key):
                        self._make(upcoming, wanted[-1])

    def _next(self, place: Place) -> tuple[Question, int, Codec] | None:
        with self._lock:
            wanted = self._wanted.pop(place, None)
            if wanted is None:
                self._busy.discard(place)
            return wanted

    def _make(self, upcoming: Upcoming, codec: Codec) -> None:
        """Decode a block that was begun, and leave it to be packed."""
        self._room.acquire()
        try:
            rows = upcoming.section.load(upcoming.number)
            make = partial(self._pack, rows, codec)
            packed = self._packing.submit(self._blocks.finish, upcoming.key, make)
        except BaseException as error:
            self._room.release()
            self._blocks.fail(upcoming.key, error)
            raise
        self._tally.add(Counted.AHEAD)
        packed.add_done_callback(self._packed)

    def _packed(self, _: Future[Block]) -> None:
        self._room.release()
