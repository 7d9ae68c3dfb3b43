"""Record batches for tests, as a producer would send them."""

from collections.abc import Sequence

from lakestream_spark.kafka.batch import CheckedBatch, check
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import Producer, Record, encode_batch

FIRST_TIMESTAMP_MS = 1_700_000_000_000


def make_batch(
    values: Sequence[bytes | None],
    *,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    codec: Codec | int = Codec.NONE,
    timestamps: Sequence[int] | None = None,
    transactional: bool = False,
) -> bytes:
    """A batch of one record per value, its offsets from 0; times one millisecond apart."""
    times = timestamps or range(FIRST_TIMESTAMP_MS, FIRST_TIMESTAMP_MS + len(values))
    records = [
        Record(offset, timestamp, None, value)
        for offset, (timestamp, value) in enumerate(zip(times, values, strict=True))
    ]
    producer = Producer(producer_id, epoch, sequence, transactional)
    return encode_batch(records, codec=Codec(codec), producer=producer)


def checked(batch: bytes) -> list[CheckedBatch]:
    """The batches as the ingress hands them to the WAL writer."""
    return check(batch, max_message_bytes=1 << 30)
