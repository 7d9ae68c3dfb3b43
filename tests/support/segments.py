"""The WAL segment that FORMAT.md dumps and the golden file holds."""

from uuid import UUID

from lakestream_spark.core.ids import BrokerId, SegmentId, TopicId, TopicPartition
from lakestream_spark.wal.receipt import BatchException, ExtentReceipt, SegmentReceipt, Verdict
from lakestream_spark.wal.segment import OpenSegment, SealedSegment
from tests.support.batches import checked, make_batch

TOPIC_A = TopicId(UUID("0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a"))
TOPIC_B = TopicId(UUID("0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b"))
GOLDEN_ID = SegmentId(BrokerId(7), 42, 3)
GOLDEN_CREATED_MS = 1_700_000_000_500
GOLDEN_RECEIPTS = (
    SegmentReceipt(
        1,
        (
            ExtentReceipt(100),
            ExtentReceipt(5, (BatchException(1, Verdict.DUPLICATE, 2),)),
        ),
    ),
)


def golden_segment() -> SealedSegment:
    """Two topics, three partitions, one of them with two batches; one receipt."""
    segment = OpenSegment()
    segment.add(TopicPartition(TOPIC_B, 0), checked(make_batch([b"b0"])))
    segment.add(TopicPartition(TOPIC_A, 1), checked(make_batch([b"a1", None])))
    segment.add(TopicPartition(TOPIC_A, 0), checked(make_batch([b""])))
    segment.add(
        TopicPartition(TOPIC_A, 1),
        checked(make_batch([b"again"], producer_id=9, epoch=0, sequence=0)),
    )
    return segment.seal(GOLDEN_ID, "cost", created_ms=GOLDEN_CREATED_MS, receipts=GOLDEN_RECEIPTS)
