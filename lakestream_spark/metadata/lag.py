"""How far a group is behind in a partition.

What always holds: the function and the expression of SQL say the same, and what retention or a
deletion of records took away is not waited for any more.
"""

from typing import Final

LAG_SQL: Final = (
    "CASE WHEN o.committed_offset > p.next_offset THEN 0 "
    "WHEN o.committed_offset < p.log_start THEN p.next_offset - p.log_start "
    "ELSE p.next_offset - o.committed_offset END"
)
"""Of a row `o` of group_offsets and its row `p` of partitions."""


def lag_of(*, committed: int, log_start: int, end: int) -> int:
    """From what was committed, or else the log start, to the end."""
    return max(0, end - max(committed, log_start))
