"""Bytes in pieces, handed on and sent one after the other without ever being joined.

What always holds: the pieces do not change, so they may be views of memory that others share.
"""

from collections.abc import Sequence
from typing import TypeAlias

Piece: TypeAlias = bytes | bytearray | memoryview


class Pieces:
    """A run of bytes; it has a length, and is false when it is empty."""

    __slots__ = ("_size", "parts")

    def __init__(self, parts: Sequence[Piece] = ()) -> None:
        self.parts = parts
        self._size = sum(map(len, parts))

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.parts)
