"""Rewrites of a table's files by Spark: merging, settling deletes, gathering manifests.

What always holds: rows stay as they are and stay in offset order, the files of a partition that one
rewrite makes do not overlap, and a rewrite that meets another commit to the same files fails and
changes nothing (the catalog's optimistic commit), so it needs no lease.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.table.columns import OFFSET

# Within a partition: a rewrite never mixes those. Spelled as the table's own order, which Spark
# then writes into the files' entries; it refuses an order that the table does not know.
_SORT_ORDER: Final = f"{OFFSET} ASC NULLS FIRST"
_NEVER: Final = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTable:
    """A table as Spark's procedures name it."""

    catalog: str
    identifier: tuple[str, ...]

    @property
    def name(self) -> str:
        return ".".join(f"`{part}`" for part in self.identifier)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What a rewrite did."""

    files_before: int
    files_after: int
    bytes_read: int


def merge_small_files(
    spark: SparkSession, table: SparkTable, *, target_bytes: int, where: str
) -> Rewritten:
    """Files of the rows that `where` names, made anew toward the target size, in offset order."""
    options = {
        "rewrite-all": "true",
        "target-file-size-bytes": str(target_bytes),
        "max-file-group-size-bytes": str(4 * target_bytes),
        "remove-dangling-deletes": "true",
        # A merged file is as old as what went into it for deletes that come meanwhile.
        "use-starting-sequence-number": "true",
    }
    return _rewrite(spark, table, options, where)


def settle_deletes(spark: SparkSession, table: SparkTable) -> Rewritten:
    """Rewrite the data files that delete files touch, then drop the delete files.

    Afterwards every live data file holds live rows only, which is all that Delta can express.
    """
    options = {
        "delete-file-threshold": "1",
        # Only because of deletes: neither the size of a file nor their number counts here.
        "min-file-size-bytes": _NEVER,
        "max-file-size-bytes": str(2**62),
        "min-input-files": str(2**31 - 1),
        "delete-ratio-threshold": "1.0",
    }
    rewritten = _rewrite(spark, table, options, where=None)
    _call(spark, table, "rewrite_position_delete_files", {"options": {"rewrite-all": "true"}})
    return rewritten


def gather_manifests(spark: SparkSession, table: SparkTable) -> int:
    """Few large manifests instead of many small ones; how many there were."""
    found = _call(spark, table, "rewrite_manifests", {"use_caching": False})
    return int(found["rewritten_manifests_count"])


def _rewrite(
    spark: SparkSession, table: SparkTable, options: Mapping[str, str], where: str | None
) -> Rewritten:
    arguments: dict[str, Any] = {
        "strategy": "sort",
        "sort_order": _SORT_ORDER,
        "options": options,
    }
    found = _call(
        spark, table, "rewrite_data_files", arguments | ({"where": where} if where else {})
    )
    return Rewritten(
        files_before=int(found["rewritten_data_files_count"]),
        files_after=int(found["added_data_files_count"]),
        bytes_read=int(found["rewritten_bytes_count"]),
    )


def _call(
    spark: SparkSession, table: SparkTable, procedure: str, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    named = {"table": table.name, **arguments}
    listed = ", ".join(f"{name} => {_literal(value)}" for name, value in named.items())
    try:
        (row,) = spark.sql(f"CALL `{table.catalog}`.system.{procedure}({listed})").collect()
    except PySparkException as error:
        raise Unavailable(
            f"Spark's {procedure} failed: {str(error).splitlines()[0]}", table=table.name
        ) from error
    return row.asDict()


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return f"map({', '.join(_literal(item) for pair in value.items() for item in pair)})"
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
