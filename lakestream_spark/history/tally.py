"""What the reader process counts; it is told to the broker with every answer.

What always holds: what was told is told once; without a listener it takes no memory that grows.
"""

import json
import threading
from collections import Counter, deque
from enum import StrEnum
from typing import Final, NamedTuple, Self

_MAX_TIMES: Final = 1024


class Counted(StrEnum):
    """Things that are counted."""

    ROWS = "rows"
    ROW_GROUPS = "row groups"
    HITS = "hits"
    WAITS = "waits"
    MISSES = "misses"
    AHEAD = "ahead"


class Timed(StrEnum):
    """Things that are timed, in seconds."""

    PLAN = "plan"
    QUEUE = "queue"


class Told(NamedTuple):
    """What happened since the last time it was told."""

    counts: dict[str, int]
    seconds: list[tuple[str, float]]
    cache_bytes: int

    def to_body(self) -> bytes:
        return json.dumps(self).encode()

    @classmethod
    def from_body(cls, body: bytes | bytearray) -> Self:
        return cls(*json.loads(body))


class Tally:
    """Counts for one process; any thread may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._seconds: deque[tuple[str, float]] = deque(maxlen=_MAX_TIMES)

    def add(self, what: Counted, number: int = 1) -> None:
        with self._lock:
            self._counts[what] += number

    def took(self, what: Timed, seconds: float) -> None:
        with self._lock:
            self._seconds.append((what, seconds))

    def take(self, cache_bytes: int = 0) -> Told:
        with self._lock:
            told = Told(dict(self._counts), list(self._seconds), cache_bytes)
            self._counts.clear()
            self._seconds.clear()
        return told
