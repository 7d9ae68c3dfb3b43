"""One append as one catalog transaction, on exactly the metadata that was judged.

What always holds: nothing is tried again here, nothing that may be part of the table is deleted,
and the table itself never carries settings that only our own commits need.
"""

from collections.abc import Mapping
from typing import Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import AssertCurrentSchemaId, AssertDefaultSpecId

from lakestream_spark.core.errors import OutcomeUnknown, Unavailable
from lakestream_spark.table.append import TableAppend
from lakestream_spark.table.entries import manifest_entry
from lakestream_spark.table.layout import COMMIT_ID_PROPERTY, ENDS_PROPERTY, encode_ends

_ON_THE_OBJECT: Final = {
    # A retry would append again without looking at the ends.
    TableProperties.COMMIT_NUM_RETRIES: "0",
    # Every hundredth commit gathers small manifests, so that reading their list stays cheap.
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    TableProperties.MANIFEST_MIN_MERGE_COUNT: "100",
    TableProperties.MANIFEST_TARGET_SIZE_BYTES: str(1024 * 1024),
}


class _Remembering(Transaction):
    """Works the metadata out once for each update; pyiceberg does at every look, with a deep copy
    of everything, which is most of what an append costs."""

    _worked_out: tuple[int, TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        number = len(self._updates)
        if number == 0:
            return self._table.metadata
        if self._worked_out is None or self._worked_out[0] != number:
            self._worked_out = (number, super().table_metadata)
        return self._worked_out[1]


def commit(
    table: Table,
    append: TableAppend,
    *,
    ends: Mapping[int, int],
    changed: Mapping[str, str] | None = None,
) -> None:
    """Append, move the ends and set the properties that changed, all or nothing.

    Raises `Unavailable` when the table changed since it was loaded and nothing was committed, and
    `OutcomeUnknown` when only a look for the commit id can tell.
    """
    table.metadata.properties.update(_ON_THE_OBJECT)
    stamp = {ENDS_PROPERTY: encode_ends(ends), COMMIT_ID_PROPERTY: str(append.commit_id)}
    try:
        with _Remembering(table) as transaction:
            _require_the_same_form(transaction, table)
            transaction.set_properties({**(changed or {}), **stamp})
            with transaction.update_snapshot(snapshot_properties=stamp).merge_append() as snapshot:
                for file in append.files:
                    snapshot.append_data_file(manifest_entry(file, table))
            # Else a refusal deletes the manifests, also one that answers a repeated request.
            transaction._snapshot_producers.clear()
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
