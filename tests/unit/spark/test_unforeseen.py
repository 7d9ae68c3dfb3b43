"""What is said of an error."""

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.spark.unforeseen import is_foreseen, told


def test_an_unforeseen_error_is_named_by_its_kind_in_one_bounded_line() -> None:
    assert told(MemoryError()) == "MemoryError"
    assert told(ValueError("two\n  lines")) == "ValueError: two lines"
    assert len(told(OSError("x" * 10_000))) == 500
    assert not is_foreseen(ValueError())


def test_a_foreseen_error_has_its_own_sentence() -> None:
    assert told(Unavailable("the store is away", url="s3://b")) == "the store is away (url=s3://b)"
    assert is_foreseen(Unavailable("gone"))
