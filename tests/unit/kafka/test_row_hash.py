"""The hash of a row is Spark's: the numbers below are what `xxhash64` gave for these rows."""

import numpy as np
import pytest

from lakestream_spark.kafka.arrow.row_hash import row_hashes
from lakestream_spark.kafka.records import Record, RecordHeader
from lakestream_spark.table.arrow_rows import record_columns
from lakestream_spark.table.rows import Row, to_arrow

HEADERS = (RecordHeader(b"a", None), RecordHeader(b"", b""), RecordHeader(b"\xff", b"x"))
OF_SPARK = {
    Row(Record(0, 0, None, None), False): 7516765632300778486,
    Row(Record(1, 1, b"", b""), True): 5488063015330428285,
    Row(Record(2**40, -7, b"key", b"v" * 100, HEADERS), False): 5661128129814832424,
    Row(Record(3, 2**62, None, b"12345"), False): -1462005632192365836,
}


def hashes(*rows: Row, skip: int = 0) -> list[int]:
    """Of the rows but the first few."""
    (piece,) = to_arrow(0, rows).combine_chunks().to_batches()
    found = row_hashes(record_columns(piece.slice(skip)))
    return [int(each) for each in found.view(np.int64)]


def test_rows_hash_as_spark_hashes_them() -> None:
    assert hashes(*OF_SPARK) == list(OF_SPARK.values())


def test_a_row_hashes_the_same_wherever_it_lies() -> None:
    assert hashes(*OF_SPARK, skip=2) == list(OF_SPARK.values())[2:]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Record(0, 0, b"x", None), Record(0, 0, None, b"x")),
        (Record(0, 0, None, b""), Record(0, 0, None, None)),
        (
            Record(0, 0, None, None, (RecordHeader(b"a", None), RecordHeader(b"b", None))),
            Record(0, 0, None, None, (RecordHeader(b"a", b"b"),)),
        ),
        (
            Record(0, 0, b"k", None, (RecordHeader(b"a", None),)),
            Record(0, 0, b"k", b"a"),
        ),
    ],
)
def test_what_is_null_is_told_apart(one: Record, other: Record) -> None:
    first, second = hashes(Row(one, False), Row(other, False))
    assert first != second
