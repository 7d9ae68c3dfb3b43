"""Notice a metadata store that is older than its bucket: a back-up that was restored.

Such a store would hand out offsets a second time and take committed segments for orphans, so a
process that finds it refuses to start. Two things give it away, and both are in the bucket:

- a segment of a broker epoch that the store has never given out;
- a receipt, carried by a segment, of a commit that the store does not know.

What cannot be noticed: a back-up that misses only an epoch's newest commits, because no later
segment of that writer carries their receipts; they look like uploads that a crash interrupted. Nor
can one whose newer segments are in the tables by now and reclaimed: the committer and `lakestream
doctor` find that out, because a table then ends beyond what the store has given out.

Only segments beyond the last known commit of their epoch are opened: those of a crashed writer's
last uploads, few in a healthy store.
"""

from lakestream_spark.core.errors import Misconfigured, NotFound
from lakestream_spark.core.ids import SegmentId
from lakestream_spark.objectstore.keys import WAL_PREFIX, parse_segment_key, segment_key
from lakestream_spark.objectstore.store import ObjectStore
from lakestream_spark.wal.format import decode_segment
from lakestream_spark.wal.ports import EpochLedger, KnownEpochs

_ADVICE = (
    "the metadata store is older than the bucket: restore a newer back-up of it; starting would "
    "give offsets out twice"
)


async def refuse_restored_metadata(store: ObjectStore, ledger: EpochLedger) -> None:
    """Raise `Misconfigured` when the bucket holds what the metadata store does not know."""
    beyond = await _beyond(store, await ledger.epochs())
    # Asked again after the listing: what was committed or registered meanwhile is then known.
    known = await ledger.epochs()
    for segment_id in beyond:
        if segment_id.broker_epoch > known.newest:
            raise Misconfigured(
                _ADVICE, segment=segment_id, newest_known_epoch=known.newest, store=store.url
            )
    for segment_id in beyond:
        await _check_receipts(store, segment_id, known)


async def _beyond(store: ObjectStore, known: KnownEpochs) -> list[SegmentId]:
    """The segments in the bucket that the store has not committed."""
    return [
        segment_id
        async for info in store.list(WAL_PREFIX)
        if (segment_id := parse_segment_key(info.key)) is not None
        and segment_id.n > known.last_n.get(segment_id.broker_epoch, 0)
    ]


async def _check_receipts(store: ObjectStore, segment_id: SegmentId, known: KnownEpochs) -> None:
    last_n = known.last_n.get(segment_id.broker_epoch, 0)
    key = segment_key(segment_id)
    try:
        data = await store.get(key)
    except NotFound:
        return  # An orphan that another process has just collected.
    for receipt in decode_segment(data, where=key).receipts:
        if receipt.n > last_n:
            raise Misconfigured(
                _ADVICE, segment=segment_id, carries_receipt_of=receipt.n, last_known=last_n
            )
