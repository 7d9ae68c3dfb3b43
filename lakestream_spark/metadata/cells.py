"""What went into the tables: rows and checksum of every cell, and what others took out again.

A cell is 65,536 offsets of a partition, on a fixed grid, so that Spark finds a row's cell by
arithmetic and merged files need no other cells. What always holds: a cell grows in the transaction
that moves the table end over it, and covers what was committed without a gap; a commit that does
not know its checksums begins its last cell anew. A change by others is stored once, by snapshot.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata.database import (
    BIGINT,
    INT,
    TEXT,
    Database,
    Execute,
    Fetch,
    FetchMany,
    InsertMany,
    Row,
    Transaction,
)

CELL_BITS: Final = 16
CELL_OFFSETS: Final = 1 << CELL_BITS

Offsets: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges [first, next), in order and apart."""
_PLACE: Final = {"topic_id": TEXT, "partition_index": INT, "number": BIGINT}
_CELL: Final = {
    **_PLACE,
    "base_offset": BIGINT,
    "next_offset": BIGINT,
    "row_count": BIGINT,
    "checksum": BIGINT,
    "holes": TEXT,
}
_COLUMNS: Final = "partition_index, number, base_offset, next_offset, row_count, checksum, holes"
_REPLACE: Final = (
    "(topic_id, partition_index, number) DO UPDATE SET base_offset = excluded.base_offset, "
    "next_offset = excluded.next_offset, row_count = excluded.row_count, "
    "checksum = excluded.checksum, holes = excluded.holes"
)


class Cell(NamedTuple):
    """Offsets [first, next) of a partition, within one cell, as they were committed."""

    partition: int
    number: int
    first: int
    next: int
    rows: int
    checksum: int
    """The exclusive or of the rows' hashes, as a signed number of 64 bits."""
    holes: Offsets = ()
    """Offsets that never had a row."""


class CellChange(NamedTuple):
    """What a snapshot of others did to the rows of a cell."""

    partition: int
    number: int
    rows: int
    """So many fewer."""
    checksum: int
    """The exclusive or of the hashes of all rows that went and that came."""
    gone: Offsets = ()
    back: Offsets = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """A snapshot of others, or of retention, that changed rows."""

    snapshot_id: int
    sequence_number: int
    at_ms: int
    operation: str
    engine: str
    cells: tuple[CellChange, ...] = ()


class Ledger(NamedTuple):
    """All that is known of a topic's rows, read in one transaction."""

    table_ends: Mapping[int, int]
    cells: Sequence[Cell]
    changes: Sequence[TableChange]


class Cells:
    """Reads the ledger and takes down changes; cells are added by `Tables.finish` alone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def ledger(self, topic_id: TopicId) -> Ledger:
        return await self._database.read(_ledger(topic_id))

    async def record(self, topic_id: TopicId, change: TableChange) -> None:
        """Take a change down; one that is there already stays as it is."""
        await self._database.run(_record(topic_id, change))

    async def forget(self, topic_id: TopicId, snapshot_id: int) -> None:
        """Strike a change that was undone."""
        await self._database.run(_forget(topic_id, snapshot_id))


def add_cells(topic_id: TopicId, cells: Sequence[Cell]) -> Transaction[None]:
    """Let the cells grow, in a transaction that holds the locks of their partitions."""
    topic = str(topic_id)
    found = yield FetchMany(
        f"SELECT {_COLUMNS} FROM cells WHERE cells.topic_id = r.topic_id "
        "AND cells.partition_index = r.partition_index AND cells.number = r.number",
        _PLACE,
        [(topic, cell.partition, cell.number) for cell in cells],
    )
    known = {(cell.partition, cell.number): cell for cell in map(_cell, found)}
    grown = [_grown(known.get((cell.partition, cell.number)), cell) for cell in cells]
    rows: list[Row] = [(topic, *cell[:6], json.dumps(cell.holes)) for cell in grown]
    yield InsertMany("cells", _CELL, rows, _REPLACE)


def _grown(old: Cell | None, new: Cell) -> Cell:
    if old is None or old.next != new.first:
        return new
    holes = (*old.holes, *new.holes)
    if old.holes and new.holes and old.holes[-1][1] == new.holes[0][0]:
        joint = (old.holes[-1][0], new.holes[0][1])
        holes = (*old.holes[:-1], joint, *new.holes[1:])
    return old._replace(
        next=new.next,
        rows=old.rows + new.rows,
        checksum=old.checksum ^ new.checksum,
        holes=holes,
    )


def _ledger(topic_id: TopicId) -> Transaction[Ledger]:
    topic = (str(topic_id),)
    ends = yield Fetch(
        "SELECT partition_index, table_end FROM partitions WHERE topic_id = $1", topic
    )
    cells = yield Fetch(
        f"SELECT {_COLUMNS} FROM cells WHERE topic_id = $1 ORDER BY partition_index, number", topic
    )
    changes = yield Fetch(
        "SELECT snapshot_id, sequence_number, at_ms, operation, engine, body FROM table_changes "
        "WHERE topic_id = $1 ORDER BY sequence_number",
        topic,
    )
    return Ledger(
        dict(sorted((row[0], row[1]) for row in ends)),
        [_cell(row) for row in cells],
        [_change(row) for row in changes],
    )


def _record(topic_id: TopicId, change: TableChange) -> Transaction[None]:
    yield Execute(
        "INSERT INTO table_changes (topic_id, snapshot_id, sequence_number, at_ms, operation, "
        "engine, body) VALUES ($1, $2, $3, $4, $5, $6, $7) "
        "ON CONFLICT (topic_id, snapshot_id) DO NOTHING",
        (
            *(str(topic_id), change.snapshot_id, change.sequence_number, change.at_ms),
            *(change.operation, change.engine, json.dumps(change.cells)),
        ),
    )


def _forget(topic_id: TopicId, snapshot_id: int) -> Transaction[None]:
    yield Execute(
        "DELETE FROM table_changes WHERE topic_id = $1 AND snapshot_id = $2",
        (str(topic_id), snapshot_id),
    )


def _cell(row: Row) -> Cell:
    return Cell._make((*row[:6], _offsets(json.loads(row[6]))))


def _change(row: Row) -> TableChange:
    snapshot_id, sequence_number, at_ms, operation, engine, body = row
    return TableChange(
        snapshot_id=snapshot_id,
        sequence_number=sequence_number,
        at_ms=at_ms,
        operation=operation,
        engine=engine,
        cells=tuple(
            CellChange(*each[:4], *(_offsets(runs) for runs in each[4:]))
            for each in json.loads(body)
        ),
    )


def _offsets(ranges: Sequence[Sequence[Any]]) -> Offsets:
    return tuple((int(first), int(after)) for first, after in ranges)
