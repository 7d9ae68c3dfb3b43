"""Stream tables in an Iceberg catalog: open, create, append exactly once.

An append is decided on the same metadata that it is committed against: it goes ahead only if the
table's own ends are the ones it starts from. The catalog refuses it when anything changed since,
and nothing here tries again by itself. Every call blocks; callers run it in a thread.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.manifest import DataFile as ManifestDataFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import Table, TableProperties
from pyiceberg.typedef import Record as PartitionRecord

from lakestream_spark.core.errors import OutcomeUnknown, Rejected, Unavailable
from lakestream_spark.core.ids import TopicId
from lakestream_spark.table.append import TableAppend, TableState, Verdict, decide
from lakestream_spark.table.columns import ICEBERG_SCHEMA, PARTITION_SPEC, SORT_ORDER
from lakestream_spark.table.files import DataFile
from lakestream_spark.table.layout import (
    COMMIT_ID_PROPERTY,
    ENDS_PROPERTY,
    NAMESPACE,
    TOPIC_ID_PROPERTY,
    TableLayout,
    encode_ends,
)
from lakestream_spark.table.spec import CatalogSpec

__all__ = ["CatalogSpec", "StreamCatalog"]


class StreamCatalog:
    """The stream tables of one catalog."""

    def __init__(self, spec: CatalogSpec, catalog: Catalog) -> None:
        self._spec = spec
        self._catalog = catalog

    @classmethod
    def open(cls, spec: CatalogSpec) -> Self:
        return cls(spec, spec.open())

    def close(self) -> None:
        self._catalog.close()

    def layout(self, topic_id: TopicId, topic_name: str) -> TableLayout:
        return TableLayout(warehouse=self._spec.warehouse, topic_id=topic_id, topic_name=topic_name)

    def load(self, layout: TableLayout) -> Table | None:
        """The topic's table with its newest metadata; None before its first commit."""
        try:
            table = self._catalog.load_table(layout.identifier)
        except NoSuchTableError:
            return None
        if table.properties.get(TOPIC_ID_PROPERTY) != str(layout.topic_id):
            raise Rejected(
                "the table belongs to another topic",
                table=".".join(layout.identifier),
                topic_id=table.properties.get(TOPIC_ID_PROPERTY),
            )
        return table

    def load_or_create(self, layout: TableLayout) -> Table:
        table = self.load(layout)
        if table is not None:
            return table
        with suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(NAMESPACE)
        try:
            return self._catalog.create_table(
                layout.identifier,
                schema=ICEBERG_SCHEMA,
                location=layout.location,
                partition_spec=PARTITION_SPEC,
                sort_order=SORT_ORDER,
                properties=layout.properties(),
            )
        except TableAlreadyExistsError:
            return self._catalog.load_table(layout.identifier)

    def append(self, layout: TableLayout, append: TableAppend) -> Verdict:
        """Commit the files once; the verdict says whether this call did, or another had before.

        Raises `Unavailable` when the table changed meanwhile and nothing was committed, and
        `OutcomeUnknown` when only a look for the commit id can tell.
        """
        table = self.load_or_create(layout)
        state = TableState.of(table)
        verdict = decide(state, append)
        if verdict is Verdict.APPLY:
            _commit(table, append, ends={**state.ends, **append.ends})
        return verdict


def _commit(table: Table, append: TableAppend, *, ends: Mapping[int, int]) -> None:
    # On this object only: a retry would append again without looking at the ends.
    table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
    stamp = {ENDS_PROPERTY: encode_ends(ends), COMMIT_ID_PROPERTY: str(append.commit_id)}
    try:
        with table.transaction() as transaction:
            transaction.set_properties(stamp)
            with transaction.update_snapshot(snapshot_properties=stamp).fast_append() as snapshot:
                for file in append.files:
                    snapshot.append_data_file(_manifest_entry(file, table))
    except CommitFailedException as error:
        raise Unavailable(f"the table changed meanwhile: {error}", table=table.name()) from error
    except Exception as error:
        raise OutcomeUnknown(
            f"the table commit may have happened: {error!r}", commit_id=append.commit_id
        ) from error


def _manifest_entry(file: DataFile, table: Table) -> ManifestDataFile:
    statistics = file.statistics
    return ManifestDataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=FileFormat.PARQUET,
        partition=PartitionRecord(file.partition),
        record_count=file.rows,
        file_size_in_bytes=file.size,
        column_sizes=statistics.column_sizes,
        value_counts=statistics.value_counts,
        null_value_counts=statistics.null_value_counts,
        nan_value_counts={},
        lower_bounds={key: bytes.fromhex(b) for key, b in statistics.lower_bounds.items()},
        upper_bounds={key: bytes.fromhex(b) for key, b in statistics.upper_bounds.items()},
        split_offsets=list(statistics.split_offsets),
        sort_order_id=table.sort_order().order_id,
        spec_id=table.spec().spec_id,
        equality_ids=None,
        key_metadata=None,
    )
