"""What there is to say of a table to people: its files and its newest snapshots.

Values only: a broker carries them without loading what reads tables.
"""

import json
from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple, Self

NEWEST: Final = 10
"""So many snapshots are told one by one."""


class SnapshotFact(NamedTuple):
    """A snapshot as its summary tells it; `rows` are those that came less those that went."""

    snapshot_id: int
    at_ms: int
    operation: str
    rows: int
    total_rows: int
    files: int


class Snapshots(NamedTuple):
    """How many a table has, and the newest of them, newest first."""

    total: int = 0
    newest: tuple[SnapshotFact, ...] = ()


NO_SNAPSHOTS: Final = Snapshots()


class TableFacts(NamedTuple):
    """The data files of a table's newest snapshot, and its snapshots."""

    table: str
    files: int
    size: int
    median_bytes: int
    snapshots: Snapshots

    @classmethod
    def of(cls, table: str, sizes: Sequence[int], snapshots: Snapshots) -> Self:
        middle = int(median(sizes)) if sizes else 0
        return cls(table, len(sizes), sum(sizes), middle, snapshots)

    def to_body(self) -> bytes:
        return json.dumps(self).encode()

    @classmethod
    def from_body(cls, body: bytes | bytearray) -> Self:
        table, files, size, median_bytes, (total, newest) = json.loads(body)
        told = Snapshots(total, tuple(SnapshotFact(*each) for each in newest))
        return cls(table, files, size, median_bytes, told)
