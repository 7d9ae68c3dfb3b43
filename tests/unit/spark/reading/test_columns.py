import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.spark.reading.columns import (
    Shape,
    batches,
    kafka_shape,
    schema,
    table_shape,
)
from lakestream_spark.table.columns import ARROW_SCHEMA
from lakestream_spark.table.rows import to_arrow
from tests.support.tables import rows


def arrow_schema(found: pa.Schema) -> str:
    """As Spark writes it, without spaces: what parses it is in the JVM."""
    fields = [f"`{each.name}`{each.dataType.simpleString()}" for each in from_arrow_schema(found)]
    return ",".join(fields)


def spark_schema(shape: Shape) -> str:
    return schema(shape).replace(" ", "")


def test_the_columns_are_those_of_the_table():
    assert spark_schema(table_shape()) == arrow_schema(ARROW_SCHEMA)


def test_rows_have_the_types_that_spark_was_told():
    table = to_arrow(3, rows(5, [b"a", None]))
    for shape in (
        table_shape(),
        table_shape(["__value", "__offset"]),
        kafka_shape(headers=True),
        kafka_shape(headers=False),
    ):
        (batch,) = batches(table, "orders", shape)
        assert arrow_schema(batch.schema) == spark_schema(shape)


def test_a_column_that_does_not_exist_is_refused():
    with pytest.raises(Misconfigured, match="there is no column 'value'; known: __partition"):
        table_shape(["value"])


def test_kafkas_columns_are_in_kafkas_order():
    (batch,) = batches(to_arrow(3, rows(5, [b"a"])), "orders", kafka_shape(headers=True))
    assert batch.schema.names == [
        *("key", "value", "topic", "partition", "offset"),
        *("timestamp", "timestampType", "headers"),
    ]
    (row,) = batch.to_pylist()
    assert (row["value"], row["topic"], row["partition"], row["offset"]) == (b"a", "orders", 3, 5)


def test_many_rows_come_in_several_batches():
    table = pa.concat_tables([to_arrow(0, rows(0, [b"x"] * 10_000))] * 2).combine_chunks()
    assert [len(batch) for batch in batches(table, "orders", table_shape())] == [16_384, 3_616]
