"""Rewrites of a table's files by Spark: merging, settling deletes, gathering manifests.

What always holds: rows stay as they are and stay in offset order, the files of a partition that one
rewrite makes do not overlap, and a rewrite that meets another commit to the same files fails and
changes nothing (the catalog's optimistic commit), so it needs no lease.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from pyspark.sql import SparkSession

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.spark.pools import UPKEEP, join_pool, rewrites_at_once
from lakestream_spark.table.columns import OFFSET
from lakestream_spark.table.upkeep.ports import Rewritten

# Within a partition: a rewrite never mixes those. Spelled as the table's own order, which Spark
# then writes into the files' entries; it refuses an order that the table does not know.
_SORT_ORDER: Final = f"{OFFSET} ASC NULLS FIRST"
_ONLY_FOR_DELETES: Final = {
    "delete-file-threshold": "1",
    # Neither the size of a file nor their number counts.
    "min-file-size-bytes": "0",
    "max-file-size-bytes": str(2**62),
    "min-input-files": str(2**31 - 1),
}


class SparkRewriter:
    """The port `Rewriter` of upkeep, on Spark's procedures for Iceberg."""

    def __init__(self, session: Callable[[], SparkSession], catalog: str) -> None:
        # A round that has nothing to rewrite starts no JVM.
        self._session = cache(session)
        self._catalog = catalog

    def merge(
        self, identifier: Sequence[str], *, target_bytes: int, where: str, most_bytes: int
    ) -> Rewritten:
        """The files whose rows `where` names, made anew toward the target size; `most_bytes` is
        what one partition has of them at most."""
        at_once = rewrites_at_once(self._spark(), most_bytes)
        options = {
            "rewrite-all": "true",
            "target-file-size-bytes": str(target_bytes),
            "max-concurrent-file-group-rewrites": str(at_once),
        }
        return self._rewrite(identifier, options, where=where)

    def settle_deletes(self, identifier: Sequence[str]) -> Rewritten:
        """Rewrite the data files that delete files touch, then drop the delete files.

        Afterwards every data file holds live rows only, which is all that Delta can express.
        """
        rewritten = self._rewrite(identifier, _ONLY_FOR_DELETES)
        dangling = {"options": {"rewrite-all": "true"}}
        self._call("rewrite_position_delete_files", identifier, dangling)
        return rewritten

    def gather_manifests(self, identifier: Sequence[str]) -> int:
        """Few large manifests instead of many small ones; how many there were."""
        found = self._call("rewrite_manifests", identifier, {"use_caching": False})
        return int(found["rewritten_manifests_count"])

    def _rewrite(
        self, identifier: Sequence[str], options: Mapping[str, str], **further: str
    ) -> Rewritten:
        arguments = {"strategy": "sort", "sort_order": _SORT_ORDER, "options": options, **further}
        found = self._call("rewrite_data_files", identifier, arguments)
        return Rewritten(
            files_before=int(found["rewritten_data_files_count"]),
            files_after=int(found["added_data_files_count"]),
            bytes_read=int(found["rewritten_bytes_count"]),
        )

    def _call(
        self, procedure: str, identifier: Sequence[str], arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        name = ".".join(f"`{part}`" for part in identifier)
        named = {"table": name, **arguments}
        listed = ", ".join(f"{key} => {_literal(value)}" for key, value in named.items())
        spark = self._spark()
        try:
            # Spark remembers a table's metadata for a while; others have committed since.
            spark.sql(f"REFRESH TABLE `{self._catalog}`.{name}").collect()
            (row,) = spark.sql(f"CALL `{self._catalog}`.system.{procedure}({listed})").collect()
        except Exception as error:
            # Whatever the JVM says: the next round looks at the table as it is then.
            raise Unavailable(
                f"Spark's {procedure} failed: {' '.join(str(error).splitlines()[:2])}", table=name
            ) from error
        return row.asDict()

    def _spark(self) -> SparkSession:
        """The session, which may have to start first; what this thread asks of it is upkeep."""
        try:
            spark = self._session()
            join_pool(spark, UPKEEP)
        except Exception as error:
            raise Unavailable(f"Spark does not run: {error}") from error
        return spark


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return f"map({', '.join(_literal(item) for pair in value.items() for item in pair)})"
    escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
