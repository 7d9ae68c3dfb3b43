"""The arrays between Python and the kernels: what each row and column of them means."""

from typing import Final, NamedTuple

import numpy as np

Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]
Ints = np.ndarray[tuple[int], np.dtype[np.int32]]
Longs = np.ndarray[tuple[int], np.dtype[np.int64]]
Table = np.ndarray[tuple[int, int], np.dtype[np.int64]]
Marks = np.ndarray[tuple[int, int], np.dtype[np.uint8]]

# A batch, as `walk` describes it and `decode` reads it: int64 columns.
POSITION: Final = 0
"""Where the batch begins in its chunk."""
START: Final = 1
"""Where its records begin in the source, once they are decompressed."""
END: Final = 2
ATTRIBUTES: Final = 3
BASE_OFFSET: Final = 4
LAST_OFFSET_DELTA: Final = 5
BASE_TIMESTAMP: Final = 6
MAX_TIMESTAMP: Final = 7
RECORD_COUNT: Final = 8
BATCH_COLUMNS: Final = 9

# Records: rows of int64; ends are those of a variable-length array and have one entry more.
OFFSET: Final = 0
TIMESTAMP: Final = 1
KEY_END: Final = 2
VALUE_END: Final = 3
HEADERS_END: Final = 4
RECORD_LONGS: Final = 5

# Records: rows of uint8.
KEY_VALID: Final = 0
VALUE_VALID: Final = 1
APPEND_TIME: Final = 2
ODD: Final = 3
RECORD_MARKS: Final = 4

ODD_TIME: Final = 1
"""The time is outside the years that a timestamp column can have."""
ODD_HEADER_KEY: Final = 2
"""A header key is not UTF-8."""

# Headers: rows of int64.
HEADER_KEY_END: Final = 0
HEADER_VALUE_END: Final = 1
HEADER_LONGS: Final = 2

# The cursor: how many are there so far.
ROWS: Final = 0
HEADERS: Final = 1
CURSOR: Final = 2

# The verdict on a batch: rows of int64.
REFUSAL: Final = 0
RECORD: Final = 1
VERDICT: Final = 2

SMALLEST_RECORD: Final = 7
SMALLEST_HEADER: Final = 2
# The years 1 to 9999. Others may fit 64 bits of microseconds, but no calendar of Python or SQL.
FIRST_TIMESTAMP_MS: Final = -62_135_596_800_000
LAST_TIMESTAMP_MS: Final = 253_402_300_799_999


# Why a batch is refused.
LEGAL: Final = 0
NO_ROOM_FOR_RECORDS: Final = 1
ENDS_INSIDE: Final = 2
VARINT_TOO_LONG: Final = 3
RECORD_BEYOND: Final = 4
NOT_FILLED: Final = 5
LEFT_OVER: Final = 6
NO_ROOM_FOR_HEADERS: Final = 7
HEADER_KEY_NULL: Final = 8
OFFSETS_DO_NOT_RISE: Final = 9
FIELD_BEYOND: Final = 10
OFFSETS_BEYOND: Final = 11
TOO_MANY_HEADERS: Final = 13
NO_SPACE: Final = 12
"""Not a refusal: the arrays for headers are full, and the batch is to be tried again."""


class Space(NamedTuple):
    """The arrays that records are decoded into, large enough for all of them but the headers."""

    cursor: Longs
    longs: Table
    marks: Marks
    keys: Bytes
    values: Bytes
    header_longs: Table
    header_valid: Bytes
    header_keys: Bytes
    header_values: Bytes


Hashes = np.ndarray[tuple[int], np.dtype[np.uint64]]


class Fields(NamedTuple):
    """A column of bytes: field n lies from `ends[n]` to `ends[n + 1]` unless it is null."""

    data: Bytes
    ends: Longs
    valid: Bytes


class HashedRows(NamedTuple):
    """The columns of rows, as the kernel that hashes them reads them."""

    offsets: Longs
    times: Longs
    times_valid: Bytes
    types: Ints
    """2 for null."""
    keys: Fields
    values: Fields
    records: Fields
    header_ends: Longs
    header_keys: Fields
    header_values: Fields
