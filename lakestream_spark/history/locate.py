"""Which rows to read for an offset, from the minimum and maximum offset of each file."""

from typing import Final, NamedTuple

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.types import LongType

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.table.append import TableState
from lakestream_spark.table.columns import ICEBERG_SCHEMA, OFFSET, PARTITION

_MAX_ROWS: Final = 10_000
_OFFSET_ID: Final = ICEBERG_SCHEMA.find_field(OFFSET).field_id


class Span(NamedTuple):
    """Offsets [first, next) of a partition: every row the table has of them is to be read."""

    partition: int
    first: int
    next: int

    @property
    def filter(self) -> str:
        offsets = f"{OFFSET} >= {self.first} AND {OFFSET} < {self.next}"
        return f"{PARTITION} = {self.partition} AND {offsets}"


def locate(table: Table, partition: int, offset: int) -> Span:
    """The span to read for `offset`; raises `Unavailable` when the table does not reach it yet."""
    end = TableState.of(table).ends.get(partition, 0)
    if offset >= end:
        raise Unavailable(
            "the table does not reach this offset yet", partition=partition, offset=offset, end=end
        )
    rest = Span(partition, offset, end)
    # Foreign files overlap and hold rows in any order: only their bounds are trusted.
    first_row = min(
        (_first(task.file) for task in table.scan(rest.filter).plan_files()), default=end
    )
    return Span(partition, offset, min(end, max(offset, first_row) + _MAX_ROWS))


def _first(file: DataFile) -> int:
    bound = file.lower_bounds.get(_OFFSET_ID)
    return 0 if bound is None else int(from_bytes(LongType(), bound))
