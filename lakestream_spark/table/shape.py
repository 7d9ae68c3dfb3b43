"""Whether a table still has a form we can write: its format version, partitioning and columns.

Told by the metadata alone. What others add is lawful, what they take from our part is not.
"""

from typing import Final

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField

from lakestream_spark.core.errors import RedTable
from lakestream_spark.table import earlier
from lakestream_spark.table.columns import ICEBERG_SCHEMA, PARTITION
from lakestream_spark.table.layout import COMMIT_ID_PROPERTY
from lakestream_spark.table.remedies import Remedies

NEWEST_FORMAT: Final = 2
_OURS: Final = index_by_id(ICEBERG_SCHEMA)
_PARTITION_ID: Final = ICEBERG_SCHEMA.find_field(PARTITION).field_id


def check_shape(table: Table, remedies: Remedies) -> None:
    """Raises `RedTable` when we cannot write files of this table any more."""
    metadata = table.metadata
    if metadata.format_version > NEWEST_FORMAT:
        sentence = f"the table has format version {metadata.format_version}; we write up to 2"
        raise _red(table, sentence, remedies.restore(_last_good(table)))
    extra = strange_fields(table.spec())
    if extra:
        names = [field.name for field in extra]
        sentence = f"the table is partitioned by {', '.join(names)}, which we cannot write"
        raise _red(table, sentence, remedies.drop_partition_fields(names))
    _check_columns(table, remedies)


def writes_partition(spec: PartitionSpec) -> bool:
    """Whether files carry the stream's partition; a spec without fields is the other one."""
    return bool(spec.fields)


def strange_fields(spec: PartitionSpec) -> list[PartitionField]:
    """The fields of a spec that keep us from writing: all but the stream's partition itself."""
    return [
        field
        for field in spec.fields
        if field.source_id != _PARTITION_ID or not isinstance(field.transform, IdentityTransform)
    ]


def lost_columns(schema: Schema) -> list[NestedField]:
    """Our columns, nested ones too, that the schema has not or has with another type."""
    theirs = index_by_id(schema)
    return [
        field
        for column, field in _OURS.items()
        if column not in theirs
        or (field.field_type.is_primitive and theirs[column].field_type != field.field_type)
    ]


def renamed_columns(schema: Schema) -> list[tuple[str, str]]:
    """Full names of our columns that others renamed, and as they should be."""
    pairs = [
        (schema.find_column_name(column), ICEBERG_SCHEMA.find_column_name(column))
        for column in _OURS
    ]
    return [(name, wanted) for name, wanted in pairs if name and wanted and name != wanted]


def new_required(schema: Schema) -> list[NestedField]:
    """Columns of others that every row must have."""
    return [field for field in schema.fields if field.required and field.field_id not in _OURS]


def _check_columns(table: Table, remedies: Remedies) -> None:
    schema = table.schema()
    lost = lost_columns(schema) or new_required(schema)
    if lost:
        names = ", ".join(field.name for field in lost)
        sentence = f"somebody dropped, retyped or made required the columns {names}"
        raise _red(table, sentence, remedies.restore(_last_good(table)))
    for name, wanted in renamed_columns(schema):
        sentence = f"somebody renamed the column {wanted} to {name}"
        last = wanted.rpartition(".")[2]
        raise _red(table, sentence, remedies.rename_column(name, last))


def _is_good(metadata: TableMetadata, commit_id: str | None) -> bool:
    schema = metadata.schema()
    return (
        metadata.properties.get(COMMIT_ID_PROPERTY) == commit_id
        and metadata.format_version <= NEWEST_FORMAT
        and not (lost_columns(schema) or new_required(schema))
    )


def _last_good(table: Table) -> str | None:
    """The newest metadata file with our newest commit that we could still write on top of."""
    commit_id = table.properties.get(COMMIT_ID_PROPERTY)
    return earlier.in_log(table, lambda found: _is_good(found, commit_id))


def _red(table: Table, sentence: str, remedy: str) -> RedTable:
    return RedTable(sentence, snapshot_id=table.metadata.current_snapshot_id, remedy=remedy)
