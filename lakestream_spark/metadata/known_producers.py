"""Producer states this process wrote last, so that a commit need not read them again.

What always holds: a state is used only while its partition's high watermark, read under the
partition's lock, is the one it was remembered with. Producers change only when the watermark moves,
so an equal one proves that nobody else wrote to the partition since. A producer that expired
meanwhile may still be known here; it is then judged as if it had not expired.
"""

from collections.abc import Mapping
from typing import Final

from lakestream_spark.metadata.producer_state import ProducerState

MAX_PRODUCERS: Final = 200_000
_NOTHING: Final[Mapping[int, ProducerState]] = {}


class KnownProducers:
    """Bounded: when too many are known, all are forgotten and read again."""

    def __init__(self, max_producers: int = MAX_PRODUCERS) -> None:
        self._max = max_producers
        self._known: dict[int, _Known] = {}
        self._count = 0

    def of(self, partition_id: int, next_offset: int) -> Mapping[int, ProducerState]:
        """The producers that are known for sure, for a locked partition."""
        known = self._known.get(partition_id)
        if known is None or known.next_offset != next_offset:
            return _NOTHING
        return known.producers

    def remember(
        self,
        partition_id: int,
        moved: tuple[int, int],
        before: Mapping[int, ProducerState],
        changed: Mapping[int, ProducerState],
    ) -> None:
        """Take note of a committed move of the watermark: what was true before it, what changed.

        Commits of several tasks may be told in any order; only a gapless history is kept.
        """
        known = self._known.get(partition_id)
        old, new = moved
        if known is None or old > known.next_offset:
            fresh = _Known(new, {**before, **changed})
            self._count += len(fresh.producers) - (len(known.producers) if known else 0)
            self._known[partition_id] = fresh
        elif old == known.next_offset:
            self._count -= len(known.producers)
            # The states first: a reader in another thread trusts them by the offset.
            known.producers.update(before)
            known.producers.update(changed)
            known.next_offset = new
            self._count += len(known.producers)
        if self._count > self._max:
            self._known = {}
            self._count = 0


class _Known:
    """States that were right when the partition's high watermark was `next_offset`."""

    __slots__ = ("next_offset", "producers")

    def __init__(self, next_offset: int, producers: dict[int, ProducerState]) -> None:
        self.next_offset = next_offset
        self.producers = producers
