"""Every object key is made and parsed here and nowhere else.

    wal/<broker id>/<broker epoch>/<n>.seg      a WAL segment

Numbers are zero-padded, so that the order of keys is the order of (broker id, epoch, n).
A key that this module did not make parses to None: foreign objects are never ours to delete.
"""

import re

from lakestream_spark.core.ids import BrokerId, SegmentId

WAL_PREFIX = "wal/"

_MAX_BROKER_ID = 2**31 - 1
_MAX_COUNTER = 2**63 - 1
_SEGMENT = re.compile(r"wal/([0-9]{10})/([0-9]{19})/([0-9]{19})\.seg")


def segment_key(segment_id: SegmentId) -> str:
    """The key of a WAL segment."""
    if not _lawful(segment_id):
        raise ValueError(f"not an identity of a WAL segment: {segment_id}")
    broker_id, broker_epoch, n = segment_id
    return f"{WAL_PREFIX}{broker_id:010d}/{broker_epoch:019d}/{n:019d}.seg"


def parse_segment_key(key: str) -> SegmentId | None:
    """The identity of the WAL segment under this key, or None if the key is not one of ours."""
    match = _SEGMENT.fullmatch(key)
    if match is None:
        return None
    broker_id, broker_epoch, n = map(int, match.groups())
    segment_id = SegmentId(BrokerId(broker_id), broker_epoch, n)
    return segment_id if _lawful(segment_id) else None


def wal_epoch_prefix(broker_id: BrokerId, broker_epoch: int) -> str:
    """The prefix of all WAL segments that one registration of a broker wrote."""
    first = segment_key(SegmentId(broker_id, broker_epoch, 1))
    return first[: first.rindex("/") + 1]


def _lawful(segment_id: SegmentId) -> bool:
    broker_id, broker_epoch, n = segment_id
    return (
        0 <= broker_id <= _MAX_BROKER_ID
        and 0 <= broker_epoch <= _MAX_COUNTER
        and 0 <= n <= _MAX_COUNTER
    )
