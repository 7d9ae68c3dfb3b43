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
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.update import AssertCurrentSchemaId, AssertDefaultSpecId

from lakestream_spark.core.errors import OutcomeUnknown, Rejected, Unavailable
from lakestream_spark.core.ids import TopicId
from lakestream_spark.table.append import TableAppend, TableState, Verdict, decide, is_done
from lakestream_spark.table.columns import ICEBERG_SCHEMA, PARTITION_SPEC, SORT_ORDER
from lakestream_spark.table.entries import manifest_entry
from lakestream_spark.table.foreign import check_foreign_changes
from lakestream_spark.table.layout import (
    COMMIT_ID_PROPERTY,
    ENDS_PROPERTY,
    NAMESPACE,
    TOPIC_ID_PROPERTY,
    TableLayout,
    encode_ends,
)
from lakestream_spark.table.remedies import Remedies
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
        with suppress(TableAlreadyExistsError, CommitFailedException):
            self._create(layout)
        table = self.load(layout)
        if table is None:
            raise Unavailable("the table was not made", table=".".join(layout.identifier))
        return table

    def _create(self, layout: TableLayout) -> None:
        creation = self._catalog.create_table_transaction(
            layout.identifier,
            schema=ICEBERG_SCHEMA,
            location=layout.location,
            partition_spec=PARTITION_SPEC,
            properties=layout.properties(),
        )
        # A second order beside the unsorted one: Spark cannot update a table that lacks that.
        order = creation.update_sort_order()
        for field in SORT_ORDER.fields:
            column = ICEBERG_SCHEMA.find_field(field.source_id).name
            order.asc(column, field.transform, field.null_order)
        order.commit()
        creation.commit_transaction()

    def append(self, layout: TableLayout, append: TableAppend) -> Verdict:
        """Commit the files once; the verdict says whether this call did, or another had before.

        Raises `Unavailable` when the table changed meanwhile and nothing was committed,
        `OutcomeUnknown` when only a look for the commit id can tell, and `RedTable` when others
        changed the table so that nothing may be added.
        """
        table = self.load_or_create(layout)
        state = TableState.of(table)
        if not is_done(state, append):
            check_foreign_changes(table, self._remedies(layout))
        verdict = decide(state, append)
        if verdict is Verdict.APPLY:
            _commit(table, append, ends={**state.ends, **append.ends})
        return verdict

    def _remedies(self, layout: TableLayout) -> Remedies:
        return Remedies(
            catalog=self._spec.name, identifier=layout.identifier, location=layout.location
        )


def _commit(table: Table, append: TableAppend, *, ends: Mapping[int, int]) -> None:
    # On this object only: a retry would append again without looking at the ends.
    table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
    stamp = {ENDS_PROPERTY: encode_ends(ends), COMMIT_ID_PROPERTY: str(append.commit_id)}
    try:
        with table.transaction() as transaction:
            _require_the_same_form(transaction, table)
            transaction.set_properties(stamp)
            with transaction.update_snapshot(snapshot_properties=stamp).fast_append() as snapshot:
                for file in append.files:
                    snapshot.append_data_file(manifest_entry(file, table))
    except CommitFailedException as error:
        raise Unavailable(f"the table changed meanwhile: {error}", table=table.name()) from error
    except Exception as error:
        raise OutcomeUnknown(
            f"the table commit may have happened: {error!r}", commit_id=append.commit_id
        ) from error


def _require_the_same_form(transaction: Transaction, table: Table) -> None:
    """Else the catalog would put the files into a table whose form nobody judged."""
    same = (
        AssertCurrentSchemaId.model_validate({"current-schema-id": table.schema().schema_id}),
        AssertDefaultSpecId.model_validate({"default-spec-id": table.spec().spec_id}),
    )
    transaction._stage((), same)
