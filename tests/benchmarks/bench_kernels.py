"""Kernels: MB/s and records/s of one core between record batches and Arrow.

Bytes are those of the records, uncompressed. Per core means per second of CPU time, so that a busy
machine does not count; wall time is beside it. "plain" is the reference in plain Python, on a small
part. Decode + Parquet is what a compaction task does with the bytes it has read.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakestream_spark.kafka.arrow.runs import Chunk
from lakestream_spark.kafka.batch import walk
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import Record, decode_records, encode_batch
from lakestream_spark.table.arrow_rows import batches_of, rows_of
from lakestream_spark.table.columns import ARROW_SCHEMA
from tests.benchmarks.harness import GB, MB, Aim, Cost, Options, Report, cost_of, median_cost, run

BATCH_BYTES: Final = 64 * 1024
EXTENT_BYTES: Final = 4 * 1024 * 1024
_KEY_BYTES: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Records of one kind, as extents of batches in one codec; times and offsets are counted."""

    kind: str
    codec: Codec
    records: list[Record]
    chunks: list[Chunk]
    size: int
    count: int


SIZES: Final = {"100 B": 100, "200 B JSON": 200, "1 KB": 1_000}


def values_of(kind: str, count: int) -> list[bytes]:
    source = random.Random(7)
    if kind == "200 B JSON":
        return [json_value(source) for _ in range(count)]
    half = (SIZES[kind] - _KEY_BYTES) // 2
    return [source.randbytes(half).hex().encode() for _ in range(count)]


def json_value(source: random.Random) -> bytes:
    event = source.choice(("view", "click", "buy", "search"))
    return (
        f'{{"user":{source.randrange(10**9)},"session":"{source.getrandbits(96):024x}",'
        f'"event":"{event}","price":{source.random():.6f},'
        f'"page":"/shop/item/{source.randrange(10**6)}","agent":"Mozilla/5.0 (X11; Linux x86_64)"}}'
    ).encode()


def load(kind: str, codec: Codec, total: int) -> Load:
    """The records of an extent are distinct, and too many for a dictionary of Parquet's."""
    values = values_of(kind, EXTENT_BYTES // SIZES[kind])
    records = [
        Record(n, 1_700_000_000_000 + n // 3, b"key-%08d" % n, value)
        for n, value in enumerate(values)
    ]
    step = BATCH_BYTES // SIZES[kind]
    parts = [records[start : start + step] for start in range(0, len(records), step)]
    extent = b"".join(encode_batch(part, codec=codec) for part in parts)
    size = sum(len(encode_batch(part)) for part in parts)
    extents = max(1, total // size)
    count = len(records)
    return Load(
        kind=kind,
        codec=codec,
        records=records,
        chunks=[Chunk(extent, number * count) for number in range(extents)],
        size=size * extents,
        count=count * extents,
    )


def decode(work: Load) -> None:
    rows = sum(piece.table.num_rows for piece in rows_of(0, work.chunks))
    assert rows == work.count


def decode_to_parquet(work: Load) -> None:
    with pq.ParquetWriter(
        pa.BufferOutputStream(), ARROW_SCHEMA, compression="zstd", store_schema=False
    ) as writer:
        for piece in rows_of(0, work.chunks):
            writer.write_table(piece.table, row_group_size=64 * 1024)


def decode_plainly(work: Load) -> None:
    data = memoryview(work.chunks[0].data)
    for position, header in walk(data, where="benchmark"):
        decode_records(data[position : position + header.size], header)


def encode_plainly(work: Load) -> None:
    encode_batch(work.records, codec=work.codec)


def encoder(work: Load) -> Callable[[], None]:
    table = pa.concat_tables(piece.table for piece in rows_of(0, work.chunks))

    def encode() -> None:
        span = (0, work.count)
        assert sum(map(len, batches_of(table, span, codec=work.codec))) > 0

    return encode


async def cost(rounds: int, action: Callable[[], None]) -> Cost:
    async def once() -> None:
        action()

    await once()
    return median_cost([await cost_of(once()) for _ in range(rounds)])


def add(report: Report, way: str, work: Load, found: Cost, plain: tuple[float, int]) -> None:
    plain_s, plain_count = plain
    report.add(
        way=way,
        records=work.kind,
        codec=work.codec.name.lower(),
        mb=round(work.size / MB),
        mb_per_s=found.mb_per_s(work.size),
        mb_per_core_s=work.size / MB / found.cpu_s,
        million_records_per_core_s=work.count / 1e6 / found.cpu_s,
        cpu_s_per_gb=found.cpu_s_per_gb(work.size),
        times_plain=plain_s / plain_count / (found.cpu_s / work.count),
    )


def timed(action: Callable[[Load], None], work: Load) -> float:
    start = time.process_time()
    action(work)
    return time.process_time() - start


async def measure_one(report: Report, work: Load, rounds: int) -> dict[str, Cost]:
    extent_count = work.count // len(work.chunks)
    found = {
        "decode": await cost(rounds, lambda: decode(work)),
        "decode + Parquet": await cost(max(1, rounds // 2), lambda: decode_to_parquet(work)),
        "encode": await cost(rounds, encoder(work)),
    }
    plain = (timed(decode_plainly, work), extent_count)
    plain_encode = (timed(encode_plainly, work), len(work.records))
    for way, own in found.items():
        add(report, way, work, own, plain_encode if way == "encode" else plain)
    return found


def at_least(name: str, limit: float, figure: float, unit: str) -> Aim:
    return Aim(name, f"≥ {limit:g} {unit}", f"{figure:.3g} {unit}", figure >= limit)


def aims_of(work: Load, found: dict[str, Cost]) -> Iterator[Aim]:
    if work.codec is not Codec.NONE:
        return
    decoded, encoded = found["decode"].cpu_s, found["encode"].cpu_s
    if work.kind == "1 KB":
        yield at_least("decode of 1 KB, per core", 1, work.size / GB / decoded, "GB/s")
        yield at_least("encode of 1 KB, per core", 1, work.size / GB / encoded, "GB/s")
    if work.kind == "100 B":
        yield at_least("decode of 100 B, per core", 5, work.count / 1e6 / decoded, "M records/s")


async def measure(report: Report, options: Options) -> None:
    total, rounds = (1_000_000, 1) if options.quick else (64_000_000, 5)
    codecs = (Codec.NONE, Codec.LZ4) if options.quick else tuple(Codec)
    for kind in SIZES:
        for codec in codecs:
            work = load(kind, codec, total)
            report.aims += aims_of(work, await measure_one(report, work, rounds))


if __name__ == "__main__":
    run("kernels", measure)
