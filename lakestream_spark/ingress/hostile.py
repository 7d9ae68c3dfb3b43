"""Bounds on what a frame may make the decoder do, checked before it is decoded.

The decoder builds an object per element, so a frame of many tiny elements costs far more memory and
time than its bytes. Only Produce may be large, and a large one must consist of records, not of
entries: those are counted by skipping from one to the next.
"""

import struct
from typing import Final

from lakestream_spark.core.errors import Rejected
from lakestream_spark.ingress.messages import Envelope, Frame

PRODUCE: Final = 0
MAX_PRODUCE_ENTRIES: Final = 100_000
_MAX_TAGS: Final = 64
_FIRST_FLEXIBLE: Final = 9
_FIRST_BY_ID: Final = 13
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")


def check_size(envelope: Envelope, frame: Frame, max_control_bytes: int) -> None:
    """Raise `Rejected` for a frame that is too large for its API."""
    if len(frame) <= max_control_bytes:
        return
    if envelope.api_key != PRODUCE:
        raise Rejected(
            "a request of this API is too large",
            api=envelope.api_key,
            size=len(frame),
            max=max_control_bytes,
        )
    try:
        _Skipper(frame, envelope.version).count_entries()
    except (struct.error, IndexError) as error:
        raise Rejected("a Produce request cannot be read", size=len(frame)) from error


class _Skipper:
    """Walks over a Produce request without building anything."""

    def __init__(self, frame: Frame, version: int) -> None:
        self._frame = frame
        self._version = version
        self._flexible = version >= _FIRST_FLEXIBLE
        self._at = 8

    def count_entries(self) -> None:
        self._skip_string(_I16)  # client id, never compact
        self._skip_tags()
        self._string()  # transactional id
        self._at += _I16.size + _I32.size  # acks, timeout
        entries = 0
        for _ in range(self._length()):
            if self._version >= _FIRST_BY_ID:
                self._at += 16
            else:
                self._string()
            for _ in range(self._length()):
                entries += 1
                if entries > MAX_PRODUCE_ENTRIES:
                    raise Rejected("a Produce request has too many entries", max=entries - 1)
                self._at += _I32.size
                self._skip(self._length())
                self._skip_tags()
            self._skip_tags()

    def _string(self) -> None:
        if self._flexible:
            self._skip(self._length())
        else:
            self._skip_string(_I16)

    def _skip_string(self, prefix: struct.Struct) -> None:
        (size,) = prefix.unpack_from(self._frame, self._at)
        self._at += prefix.size
        self._skip(size)

    def _length(self) -> int:
        """A count or a size; null is nothing."""
        if self._flexible:
            return max(0, self._varint() - 1)
        (size,) = _I32.unpack_from(self._frame, self._at)
        self._at += _I32.size
        return max(0, int(size))

    def _skip_tags(self) -> None:
        if not self._flexible:
            return
        tags = self._varint()
        if tags > _MAX_TAGS:
            raise Rejected("a request has too many tagged fields", tags=tags, max=_MAX_TAGS)
        for _ in range(tags):
            self._varint()
            self._skip(self._varint())

    def _skip(self, size: int) -> None:
        self._at += max(0, size)
        if self._at > len(self._frame):
            raise Rejected("a request ends before what it announces", size=len(self._frame))

    def _varint(self) -> int:
        value = shift = 0
        while shift < 35:
            byte = self._frame[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise Rejected("a request holds a number that is too long")
