"""The kernels that turn batches into columns; `records.decode_records` is what they must equal.

What always holds: a batch is decoded whole or leaves nothing behind, and nothing outside
[start, end) of its records is read, whatever they say. Keys and values of a batch take no more room
than its records, so the caller's arrays suffice; headers are counted against theirs.
"""

from lakestream_spark.kafka.arrow.layout import (
    APPEND_TIME,
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    END,
    FIELD_BEYOND,
    FIRST_TIMESTAMP_MS,
    HEADER_KEY_END,
    HEADER_KEY_NULL,
    HEADER_VALUE_END,
    HEADERS,
    HEADERS_END,
    KEY_END,
    KEY_VALID,
    LAST_OFFSET_DELTA,
    LAST_TIMESTAMP_MS,
    LEFT_OVER,
    LEGAL,
    MAX_TIMESTAMP,
    NO_ROOM_FOR_HEADERS,
    NO_ROOM_FOR_RECORDS,
    NO_SPACE,
    NOT_FILLED,
    ODD,
    ODD_HEADER_KEY,
    ODD_TIME,
    OFFSET,
    OFFSETS_BEYOND,
    OFFSETS_DO_NOT_RISE,
    POSITION,
    RECORD,
    RECORD_BEYOND,
    RECORD_COUNT,
    REFUSAL,
    ROWS,
    SMALLEST_RECORD,
    START,
    TIMESTAMP,
    VALUE_END,
    VALUE_VALID,
    Bytes,
    Longs,
    Space,
    Table,
)
from lakestream_spark.kafka.arrow.primitives import (
    big_endian,
    compiled,
    copy,
    inlined,
    is_utf8,
    skip,
    varint,
    wrapped_varint,
)
from lakestream_spark.kafka.batch import (
    APPEND_TIME_FLAG,
    CONTROL_FLAG,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC_V2,
)

_LAST_OFFSET = 2**63 - 1


def walk(chunk: Bytes, base_offset: int, batches: Table) -> int:
    """Describe each batch of the chunk; how many, or -1 when its bytes are not whole batches.

    From a base offset that is not negative on the batches have consecutive offsets.
    """
    position, count = 0, 0
    numbered = base_offset >= 0
    while position < len(chunk):
        if len(chunk) - position < HEADER_BYTES:
            return -1
        size = big_endian(chunk, position + 8, 4) + LENGTH_OVERHEAD
        if chunk[position + 16] != MAGIC_V2 or not HEADER_BYTES <= size <= len(chunk) - position:
            return -1
        batch = batches[count]
        batch[POSITION] = position
        batch[START] = position + HEADER_BYTES
        batch[END] = position + size
        batch[ATTRIBUTES] = big_endian(chunk, position + 21, 2)
        batch[LAST_OFFSET_DELTA] = big_endian(chunk, position + 23, 4)
        batch[BASE_TIMESTAMP] = big_endian(chunk, position + 27, 8)
        batch[MAX_TIMESTAMP] = big_endian(chunk, position + 35, 8)
        batch[RECORD_COUNT] = big_endian(chunk, position + 57, 4)
        if not numbered:
            base_offset = big_endian(chunk, position, 8)
        batch[BASE_OFFSET] = base_offset
        base_offset += batch[LAST_OFFSET_DELTA] + 1
        position += size
        count += 1
    return count


def decode(source: Bytes, batches: Table, first: int, space: Space, verdicts: Table) -> int:
    """Decode the batches from `first` on; the first that is not done for want of header space."""
    for number in range(first, len(batches)):
        batch = batches[number]
        refusal, record = LEGAL, 0
        if not batch[ATTRIBUTES] & CONTROL_FLAG:
            refusal, record = _decode_batch(source, batch, space)
        if refusal == NO_SPACE:
            return number
        verdicts[number, REFUSAL] = refusal
        verdicts[number, RECORD] = record
    return len(batches)


@compiled
def _decode_batch(source: Bytes, batch: Longs, space: Space) -> tuple[int, int]:
    """Why the batch is refused, and at which of its records."""
    count = batch[RECORD_COUNT]
    if not 0 <= count <= (batch[END] - batch[START]) // SMALLEST_RECORD:
        return NO_ROOM_FOR_RECORDS, 0
    if batch[BASE_OFFSET] > _LAST_OFFSET - max(0, batch[LAST_OFFSET_DELTA]):
        return OFFSETS_BEYOND, 0
    row = space.cursor[ROWS]
    position, record = _decode_records(source, batch, space)
    if position < 0:
        return -position, record
    if position != batch[END]:
        return LEFT_OVER, record
    record = _first_misplaced(space.longs[OFFSET, row : row + count], batch[LAST_OFFSET_DELTA])
    if record < count:
        return OFFSETS_DO_NOT_RISE, record
    space.longs[OFFSET, row : row + count] += batch[BASE_OFFSET]
    _set_times(batch, space.longs[TIMESTAMP], space.marks[APPEND_TIME], space.marks[ODD], row)
    space.cursor[ROWS] += count
    space.cursor[HEADERS] = space.longs[HEADERS_END, row + count]
    return LEGAL, 0


@compiled
def _decode_records(source: Bytes, batch: Longs, space: Space) -> tuple[int, int]:
    """The position after the records, or why they are refused, negative; and the record reached.

    Offsets and times are written as the deltas that they are.
    """
    position, end = batch[START], batch[END]
    # Arrays are counted references: taken once here, and not for every record.
    keys, values = space.keys, space.values
    offsets, times = space.longs[OFFSET], space.longs[TIMESTAMP]
    key_ends, value_ends = space.longs[KEY_END], space.longs[VALUE_END]
    key_valid, value_valid = space.marks[KEY_VALID], space.marks[VALUE_VALID]
    headers_ends, odd = space.longs[HEADERS_END], space.marks[ODD]
    first = space.cursor[ROWS]
    for row in range(first, first + batch[RECORD_COUNT]):
        length, position = varint(source, position, end)
        record_end = position + length
        if position >= 0 and not 0 <= length <= end - position:
            position = -RECORD_BEYOND
        times[row], position = wrapped_varint(source, skip(position, 1), end)
        offsets[row], position = varint(source, position, end)
        position = _decode_field(source, position, end, keys, key_ends, key_valid, row)
        position = _decode_field(source, position, end, values, value_ends, value_valid, row)
        count, position = varint(source, position, end)
        headers_ends[row + 1] = headers_ends[row]
        odd[row] = 0
        if position >= 0 and count != 0:
            position = _decode_headers(source, position, end, count, row, space)
        if position >= 0 and position != record_end:
            position = -NOT_FILLED
        if position < 0:
            return position, row - first
    return position, batch[RECORD_COUNT]


@inlined
def _decode_field(
    source: Bytes, position: int, end: int, target: Bytes, ends: Longs, valid: Bytes, row: int
) -> int:
    """Copy a field, which may be null, behind those before it; the position after it."""
    size, position = _field(source, position, end)
    if position < 0:
        return position
    valid[row] = size >= 0
    size = max(size, 0)
    copy(target, ends[row], source, position, size)
    ends[row + 1] = ends[row] + size
    return position + size


@inlined
def _field(source: Bytes, position: int, end: int) -> tuple[int, int]:
    """The size of a field, -1 for null, and the position of its bytes."""
    size, position = varint(source, position, end)
    if position >= 0 and not -1 <= size <= end - position:
        return 0, -FIELD_BEYOND
    return size, position


@compiled
def _decode_headers(
    source: Bytes, position: int, end: int, count: int, row: int, space: Space
) -> int:
    """Copy the headers of a record behind those before it; the position after them."""
    if not 0 <= count <= (end - position) // 2:
        return -NO_ROOM_FOR_HEADERS
    ends = space.longs[HEADERS_END]
    key_ends = space.header_longs[HEADER_KEY_END]
    value_ends = space.header_longs[HEADER_VALUE_END]
    for header in range(ends[row], ends[row] + count):
        size, after = _field(source, position, end)
        if after >= 0 and size < 0:
            return -HEADER_KEY_NULL
        size, after = _field(source, skip(after, size), end)
        if after < 0:
            return after
        if (
            header >= len(space.header_valid)
            or after - position > len(space.header_keys) - key_ends[header]
            or size > len(space.header_values) - value_ends[header]
        ):
            return -NO_SPACE
        start = key_ends[header]
        position = _decode_field(
            source, position, end, space.header_keys, key_ends, space.header_valid, header
        )
        if not is_utf8(space.header_keys, start, key_ends[header + 1]):
            space.marks[ODD, row] = ODD_HEADER_KEY
        position = _decode_field(
            source, position, end, space.header_values, value_ends, space.header_valid, header
        )
    ends[row + 1] = ends[row] + count
    return position


@inlined
def _first_misplaced(deltas: Longs, last: int) -> int:
    """The first record whose offset is not above that before it or lies beyond the batch."""
    previous = -1
    for record in range(len(deltas)):
        if not previous < deltas[record] <= last:
            return record
        previous = deltas[record]
    return len(deltas)


@inlined
def _set_times(batch: Longs, times: Longs, append_time: Bytes, odd: Bytes, first: int) -> None:
    """Deltas become times, as 64-bit arithmetic has it; append time is one for the whole batch."""
    appended = batch[ATTRIBUTES] & APPEND_TIME_FLAG != 0
    for row in range(first, first + batch[RECORD_COUNT]):
        time = batch[MAX_TIMESTAMP] if appended else times[row] + batch[BASE_TIMESTAMP]
        times[row] = time
        append_time[row] = appended
        if not FIRST_TIMESTAMP_MS <= time <= LAST_TIMESTAMP_MS:
            odd[row] |= ODD_TIME
