"""What a task says about a Parquet file it wrote: enough for a commit that reads no footer.

The description crosses two borders as JSON, from the task to the driver and from the driver into
the stored intent, and comes back equal.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)

from lakestream_spark.metadata.cells import Offsets
from lakestream_spark.table.columns import ICEBERG_SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatistics:
    """Counts and bounds by field id; bounds in Iceberg's binary form, as hex."""

    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    lower_bounds: dict[int, str]
    upper_bounds: dict[int, str]
    split_offsets: tuple[int, ...]

    @classmethod
    def of_written(cls, footer: pq.FileMetaData, properties: dict[str, str]) -> Self:
        """From the footer in the writer's memory; `properties` say which columns get bounds."""
        found = data_file_statistics_from_parquet_metadata(
            parquet_metadata=footer,
            stats_columns=compute_statistics_plan(ICEBERG_SCHEMA, properties),
            parquet_column_mapping=parquet_path_to_id_mapping(ICEBERG_SCHEMA),
        ).to_serialized_dict()
        return cls(
            column_sizes=found["column_sizes"],
            value_counts=found["value_counts"],
            null_value_counts=found["null_value_counts"],
            lower_bounds={key: bound.hex() for key, bound in found["lower_bounds"].items()},
            upper_bounds={key: bound.hex() for key, bound in found["upper_bounds"].items()},
            split_offsets=tuple(found["split_offsets"]),
        )

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        maps = {
            name: {int(key): value for key, value in fields[name].items()}
            for name in fields
            if name != "split_offsets"
        }
        return cls(**maps, split_offsets=tuple(fields["split_offsets"]))


class FileSum(NamedTuple):
    """How many rows a file has in a cell, and the exclusive or of their hashes."""

    cell: int
    rows: int
    checksum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file with the offsets [first, next) of one partition, in offset order."""

    path: str
    partition: int
    first: int
    next: int
    rows: int
    size: int
    statistics: FileStatistics
    sums: tuple[FileSum, ...] = ()
    """By cell, in order; none when nobody counted."""
    holes: Offsets = ()
    """Offsets without a row."""

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.next or not 0 < self.rows <= self.next - self.first:
            raise ValueError(f"a data file's rows do not fit [{self.first}, {self.next})")

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        fields = json.loads(text)
        own = {
            "statistics": FileStatistics.from_json(fields["statistics"]),
            "sums": tuple(FileSum(*each) for each in fields.get("sums", ())),
            "holes": tuple((first, after) for first, after in fields.get("holes", ())),
        }
        return cls(**{**fields, **own})
