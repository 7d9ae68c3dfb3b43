"""Batches of a few kilobytes that decompress to as much as is allowed: a task survives them.

The memory of a process is told by the kernel as its peak, so each batch has a process of its own.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from lakestream_spark.core.ids import TopicId
from lakestream_spark.kafka.arrow.runs import MAX_BATCH_RECORDS, Chunk
from lakestream_spark.kafka.codecs import MAX_DECOMPRESSED_BYTES, Codec
from lakestream_spark.kafka.records import Record, encode_batch
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.table.arrow_rows import rows_of
from lakestream_spark.table.layout import TableLayout
from lakestream_spark.table.partition_file import PartitionFile
from lakestream_spark.table.spec import CatalogSpec
from tests.support.record_bytes import assemble, parse

ROOT = Path(__file__).parents[3]
MIB = 1024 * 1024
NULL, NONE = b"\x01", b"\x00"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(sys.platform != "linux", reason="the peak is told by Linux only"),
]


def zigzag(number: int) -> bytes:
    left, found = number << 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def record(*fields: bytes, delta: int = 0) -> bytes:
    body = b"".join((NONE, NONE, zigzag(delta), *fields))
    return zigzag(len(body)) + body


def bomb(kind: str) -> bytes:
    """A legal batch of zstd that is as large as it may be, or larger in one respect."""
    count, size = 1, MAX_DECOMPRESSED_BYTES - 64
    match kind:
        case "value":
            body = record(NULL, zigzag(size), bytes(size), NONE)
        case "too large":
            body = record(NULL, zigzag(2 * size), bytes(2 * size), NONE)
        case "headers":
            body = record(NULL, NULL, zigzag(size // 2), (NONE + NULL) * (size // 2))
        case "records":
            count = MAX_BATCH_RECORDS
            body = b"".join(record(NULL, NULL, NONE, delta=n) for n in range(count))
        case _:
            count = MAX_DECOMPRESSED_BYTES // 7
            body = record(NULL, NULL, NONE) * count
    header = parse(encode_batch([Record(0, 1, None, None)]))
    numbers = {"record_count": count, "last_offset_delta": count - 1}
    return assemble(body, Codec.ZSTD, header._replace(**numbers))


@pytest.mark.parametrize(
    ("kind", "rows", "refusal", "at_most_mib"),
    [
        ("value", 1, None, 3072),
        ("records", MAX_BATCH_RECORDS, None, 2048),
        ("headers", 0, "more headers than is allowed", 2048),
        ("too many records", 0, "more records than is allowed", 1024),
        ("too large", 0, "decompresses to more than is allowed", 1024),
    ],
)
def test_a_task_that_meets_a_bomb_has_an_outcome_in_bounded_memory(
    tmp_path: Path, kind: str, rows: int, refusal: str | None, at_most_mib: int
) -> None:
    path = tmp_path / "batch"
    path.write_bytes(bomb(kind))
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.table.test_bombs", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    print(f"{kind}: a batch of {path.stat().st_size} bytes took {found['mib']:.0f} MiB")
    assert found["rows"] == rows
    assert [refusal in each for each in found["refused"]] == ([] if refusal is None else [True])
    assert found["mib"] < at_most_mib


def move(path: Path) -> None:
    """What a task does with the batch, and the memory that it took beside the program itself."""
    batch = path.read_bytes()
    spec = CatalogSpec(name="lake", warehouse=f"file://{path.parent}")
    layout = TableLayout(warehouse=spec.warehouse, topic_id=TopicId(uuid4()), topic_name="t")
    before = peak_mib()
    refused, rows = [], 0
    with PartitionFile(spec.file_io(), layout, PlannedRange(0, 0, 2**40), uuid4()) as file:
        for decoded in rows_of(0, [Chunk(batch, 0)]):
            file.write(decoded.table)
            rows += decoded.table.num_rows
            refused += [str(each.error) for each in decoded.refused]
        file.finish()
    print(json.dumps({"rows": rows, "refused": refused, "mib": peak_mib() - before}))


def peak_mib() -> float:
    # Not by getrusage: there a new program begins with the peak of the one that started it.
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


if __name__ == "__main__":
    move(Path(sys.argv[1]))
