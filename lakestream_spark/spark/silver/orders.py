"""What an order looks like, in one place, and how its JSON becomes columns.

What always holds: a row is never lost and never fails a batch. A field that is missing, or that is
not of its type, is null, and the rules say what that means; JSON that cannot be read is kept in
`__broken`.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

TOPIC: Final = "orders"
FIELDS: Final = {
    "order_id": "string",
    "customer_id": "string",
    "status": "string",
    "city": "string",
    "country": "string",
    "currency": "string",
    "total": "decimal(12,2)",
    "items": "array<struct<name: string, count: int, price: decimal(12,2)>>",
    "placed_at": "timestamp",
}
"""The fields of an order and their types in the silver table."""

RECORD: Final = {
    "__partition": "int",
    "__offset": "bigint",
    "__timestamp": "timestamp",
    "__timestamp_type": "int",
    "__key": "binary",
    "__headers": "array<struct<key: string, value: binary>>",
    "__value": "binary",
    "__record": "binary",
}
"""The columns of the bronze table: the whole record."""

BROKEN: Final = "__broken"
_AS_TEXT: Final = ", ".join([*(f"{name} string" for name in FIELDS), f"{BROKEN} string"])


def typed(bronze: DataFrame) -> DataFrame:
    """The records with their fields as columns beside them."""
    value = F.col("__value").cast("string")
    text = F.from_json(value, _AS_TEXT, {"columnNameOfCorruptRecord": BROKEN})
    # Of an empty text Spark makes nothing at all.
    broken = F.when(F.col("text").isNull(), value).otherwise(F.col(f"text.{BROKEN}"))
    return bronze.withColumn("text", text).select(
        *RECORD,
        *(_field(name, kind).alias(name) for name, kind in FIELDS.items()),
        broken.alias(BROKEN),
    )


def _field(name: str, kind: str) -> Column:
    """Null unless the text can be read as the type: `try_cast` never fails a batch."""
    text = F.col(f"text.{name}")
    return F.from_json(text, kind) if kind.startswith("array") else text.try_cast(kind)
