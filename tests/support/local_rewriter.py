"""The port `Rewriter` without Spark: small tables are rewritten in this process."""

from collections.abc import Callable, Sequence
from typing import Final
from uuid import uuid4

import pyarrow.parquet as pq
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, TableProperties

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.table.columns import ARROW_SCHEMA, OFFSET
from lakestream_spark.table.upkeep.ports import Rewritten

_TRIES: Final = 5


class LocalRewriter:
    """Merges each partition's files into one, in offset order; other rewrites it cannot do."""

    def __init__(self, load: Callable[[Sequence[str]], Table]) -> None:
        self._load = load

    def merge(
        self,
        identifier: Sequence[str],
        *,
        target_bytes: int,
        where: str,
        most_bytes: int = 0,
    ) -> Rewritten:
        table = self._load(identifier)
        partitions: dict[int, list[DataFile]] = {}
        for task in table.scan(row_filter=where).plan_files():
            partitions.setdefault(task.file.partition[0], []).append(task.file)
        old = [file for own in partitions.values() for file in own]
        new = [self._write(table, files) for files in partitions.values()]
        # As Spark does: appends of others do not touch these files, so the commit is tried again.
        for _ in range(_TRIES):
            if replace_files(self._load(identifier), old, new):
                return Rewritten(len(old), len(new), sum(f.file_size_in_bytes for f in old))
        raise Unavailable("the table changed meanwhile")

    def _write(self, table: Table, files: Sequence[DataFile]) -> DataFile:
        paths = [file.file_path.removeprefix("file://") for file in files]
        rows = pq.ParquetDataset(paths, schema=ARROW_SCHEMA, partitioning=None).read()
        path = f"{table.properties['write.data.path']}/merged-{uuid4().hex}.parquet"
        with table.io.new_output(path).create() as stream:
            pq.write_table(rows.sort_by(OFFSET), stream, store_schema=False)
        return parquet_file_to_data_file(table.io, table.metadata, path)

    def settle_deletes(self, identifier: Sequence[str]) -> Rewritten:
        raise Unavailable("only Spark settles deletes")

    def gather_manifests(self, identifier: Sequence[str]) -> int:
        raise Unavailable("only Spark gathers manifests")


def replace_files(table: Table, old: Sequence[DataFile], new: Sequence[DataFile]) -> bool:
    table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
    try:
        with (
            table.transaction() as transaction,
            transaction.update_snapshot().overwrite() as overwrite,
        ):
            for file in new:
                overwrite.append_data_file(file)
            for file in old:
                overwrite.delete_data_file(file)
    except CommitFailedException:
        return False
    return True
