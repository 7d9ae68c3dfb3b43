"""The fixed columns of every stream table: the one home of names, ids, nullability and comments.

The Arrow schema that tasks write is computed from the Iceberg schema, so the two cannot disagree.
Ids are those a catalog hands out to a new table (a struct's own fields before what they contain):
a table made elsewhere by the same schema has the same ids. A single underscore would be refused:
Iceberg reserves `_partition`.
"""

from typing import Final

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

PARTITION: Final = "__partition"
OFFSET: Final = "__offset"
TIMESTAMP: Final = "__timestamp"
TIMESTAMP_TYPE: Final = "__timestamp_type"
KEY: Final = "__key"
HEADERS: Final = "__headers"
VALUE: Final = "__value"
RECORD: Final = "__record"

CREATE_TIME: Final = 0
APPEND_TIME: Final = 1

_HEADER: Final = StructType(
    NestedField(10, "key", StringType(), required=True, doc="The header's name."),
    NestedField(11, "value", BinaryType(), required=False, doc="The header's value, or null."),
)

ICEBERG_SCHEMA: Final = Schema(
    NestedField(1, PARTITION, IntegerType(), required=True, doc="Partition of the topic."),
    NestedField(2, OFFSET, LongType(), required=True, doc="Offset within the partition."),
    NestedField(3, TIMESTAMP, TimestamptzType(), required=False, doc="The record's time."),
    NestedField(
        4,
        TIMESTAMP_TYPE,
        IntegerType(),
        required=False,
        doc="Who set the time: 0 the producer (create time), 1 the broker (append time).",
    ),
    NestedField(5, KEY, BinaryType(), required=False, doc="The record's key, or null."),
    NestedField(
        6,
        HEADERS,
        ListType(element_id=9, element=_HEADER, element_required=True),
        required=False,
        doc="The record's headers in the order sent; no headers are an empty list.",
    ),
    NestedField(7, VALUE, BinaryType(), required=False, doc="The record's value, or null."),
    NestedField(
        8,
        RECORD,
        BinaryType(),
        required=False,
        doc="The whole encoded record, when the other columns cannot hold it exactly.",
    ),
)

ARROW_SCHEMA: Final[pa.Schema] = schema_to_pyarrow(ICEBERG_SCHEMA)

PARTITION_SPEC: Final = PartitionSpec(
    PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name=PARTITION)
)

SORT_ORDER: Final = SortOrder(SortField(source_id=2, transform=IdentityTransform()))
