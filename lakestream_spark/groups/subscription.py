"""The topics in a consumer's metadata: the part that all versions of that format begin with.

The coordinator never needs them to rebalance: any protocol may be spoken in a group. They tell
whether an offset is in use and whether a static member came back for something else.
"""

import struct
from typing import Final

CONSUMER: Final = "consumer"
"""The protocol type of Kafka's own consumers."""

_VERSION_AND_COUNT: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics a consumer subscribed to, or None when the bytes do not say."""
    try:
        _, count = _VERSION_AND_COUNT.unpack_from(metadata)
        place = _VERSION_AND_COUNT.size
        topics = []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, place)
            place += _LENGTH.size
            if not 0 <= length <= len(metadata) - place:
                return None
            topics.append(metadata[place : place + length].decode())
            place += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics) if count >= 0 else None
