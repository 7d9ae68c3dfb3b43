"""When a topic's records go to its table, and how much of each partition one batch takes.

Pure. What always holds: what was acknowledged is due at its topic's lag target at the latest, less
the time a batch takes; a batch takes no more than its bytes, shared so that nobody starves.
"""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from lakestream_spark.metadata.backlog import TopicBacklog

K = TypeVar("K", bound=Hashable)
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactPolicy:
    """How eager a compaction is, and how much it holds at once."""

    batch_bytes: int = 512 * MIB
    """WAL bytes of one micro-batch."""
    task_bytes: int = 64 * MIB
    """WAL bytes of one task, and of one file."""
    file_bytes: int = 128 * MIB
    """So many WAL bytes of a partition make a good file: its topic does not wait for its lag
    target."""
    poll_s: float = 0.25
    """How often the backlog is looked at."""
    session_s: float = 10.0
    """A job that does not beat for this long has lost its tables."""


def is_due(
    backlog: TopicBacklog, *, lag_ms: int, now_ms: int, head_start_ms: float, enough: bool
) -> bool:
    """Whether a topic goes into the next batch; `enough` says that its bytes make a good file."""
    if enough or backlog.flush_wanted:
        return True
    # Half of a short target at most: else a slow batch would make every batch due at once.
    ahead_ms = min(head_start_ms, lag_ms / 2)
    return now_ms - backlog.oldest_ms >= lag_ms - ahead_ms


def is_enough(sizes: Collection[int], policy: CompactPolicy) -> bool:
    """Whether a topic whose partitions have so many WAL bytes need not wait for its lag target.

    A file belongs to one partition, so the largest one counts: many small ones make many small
    files, however much they are together. But a batch takes `batch_bytes` at most: from there on
    waiting makes no larger files, only later ones and a longer WAL.
    """
    return max(sizes, default=0) >= policy.file_bytes or sum(sizes) >= policy.batch_bytes


def share_out(wanted: Mapping[K, int], budget: int) -> dict[K, int]:
    """Bytes for each, none more than it wants, the small ones whole and the rest even."""
    shares: dict[K, int] = {}
    left = budget
    ordered = sorted(wanted, key=lambda key: wanted[key])
    for position, key in enumerate(ordered):
        shares[key] = min(wanted[key], left // (len(ordered) - position))
        left -= shares[key]
    return shares
