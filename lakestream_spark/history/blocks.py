"""Encoded blocks: each is made once, whoever asks for it meanwhile waits, and the newest are kept.

What always holds: the bytes kept stay within their bound; a failure is told to all who wait for the
block, and the next who asks tries again.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from enum import Enum
from typing import NamedTuple


class Batch(NamedTuple):
    """A record batch that reaches from its base offset to the offset `next`."""

    base: int
    next: int
    data: bytes
    records: int


class Block(NamedTuple):
    """All rows of the offsets [first, next), in order; there may be none."""

    batches: tuple[Batch, ...]
    first: int
    next: int


class Source(Enum):
    """Where a block came from."""

    KEPT = "kept"
    AWAITED = "awaited"
    MADE = "made"


class BlockCache:
    """Blocks by key, least recently used out first."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[Block, int]] = OrderedDict()
        self._bytes = 0
        self._making: dict[Hashable, Future[Block]] = {}

    @property
    def held_bytes(self) -> int:
        return self._bytes

    def get(self, key: Hashable, make: Callable[[], Block]) -> tuple[Block, Source]:
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return kept[0], Source.KEPT
            making = self._making.get(key)
            if making is None:
                self._making[key] = Future()
        if making is not None:
            return making.result(), Source.AWAITED
        return self.finish(key, make), Source.MADE

    def begin(self, key: Hashable) -> bool:
        """Whether the caller is to make the block: it calls `finish` or `fail`, in any case."""
        with self._lock:
            if key in self._kept or key in self._making:
                return False
            self._making[key] = Future()
            return True

    def finish(self, key: Hashable, make: Callable[[], Block]) -> Block:
        """Make a block that was begun."""
        try:
            block = make()
        except BaseException as error:
            self.fail(key, error)
            raise
        with self._lock:
            making = self._making.pop(key)
            self._keep(key, block)
        making.set_result(block)
        return block

    def fail(self, key: Hashable, error: BaseException) -> None:
        """A block that was begun cannot be made."""
        with self._lock:
            making = self._making.pop(key)
        making.set_exception(error)

    def _keep(self, key: Hashable, block: Block) -> None:
        size = sum(len(batch.data) for batch in block.batches)
        self._kept[key] = (block, size)
        self._bytes += size
        while self._bytes > self._limit and self._kept:
            self._bytes -= self._kept.popitem(last=False)[1][1]
