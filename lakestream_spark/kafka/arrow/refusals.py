"""Why the kernels refuse a batch, in the words of `kafka.records`."""

from typing import Final

from lakestream_spark.core.errors import InvalidBatch
from lakestream_spark.kafka.arrow.layout import (
    ENDS_INSIDE,
    FIELD_BEYOND,
    HEADER_KEY_NULL,
    LEFT_OVER,
    NO_ROOM_FOR_HEADERS,
    NO_ROOM_FOR_RECORDS,
    NOT_FILLED,
    OFFSETS_BEYOND,
    OFFSETS_DO_NOT_RISE,
    RECORD_BEYOND,
    TOO_MANY_HEADERS,
    VARINT_TOO_LONG,
)

_SENTENCES: Final = {
    NO_ROOM_FOR_RECORDS: "the batch has no room for its records",
    ENDS_INSIDE: "the batch ends inside a record",
    VARINT_TOO_LONG: "a varint is longer than ten bytes",
    RECORD_BEYOND: "a record reaches beyond its batch",
    NOT_FILLED: "a record's fields do not fill its length",
    LEFT_OVER: "bytes are left over after the records",
    NO_ROOM_FOR_HEADERS: "a record has no room for its headers",
    HEADER_KEY_NULL: "a header key is null",
    OFFSETS_DO_NOT_RISE: "the offsets of the batch do not rise within its range",
    FIELD_BEYOND: "a field reaches beyond its batch",
    OFFSETS_BEYOND: "the offsets of the batch do not fit 64 bits",
    TOO_MANY_HEADERS: "the batch has more headers than is allowed",
}


def error_of(refusal: int, record: int) -> InvalidBatch:
    """The error, with the number of the record within its batch at which it was found."""
    return InvalidBatch(_SENTENCES[refusal], record=record)
