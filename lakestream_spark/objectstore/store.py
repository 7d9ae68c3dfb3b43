"""The port every store implements, and the rules for keys and ranges they share.

A key is a path of plain components: no component is empty or starts with a dot, so that a key means
the same in a bucket and in a folder, and a store may keep files of its own behind a leading dot.
"""

import re
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from lakestream_spark.core.errors import Corrupt, Rejected

Data: TypeAlias = bytes | memoryview
Ranges: TypeAlias = list[memoryview]

_COMPONENT = r"[A-Za-z0-9_=+@~-][A-Za-z0-9_=+@~.-]{0,199}"
_KEY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_PREFIX = re.compile(rf"(?:{_COMPONENT}/)*")


class ObjectInfo(NamedTuple):
    """What a listing knows about an object."""

    key: str
    size: int
    modified_ms: int


class ObjectStore(Protocol):
    """Objects that are written once, whole, and never change.

    Raises `Unavailable` when trying again may help, `NotFound` for a missing object, `Corrupt` when
    stored bytes are not what they must be, `Misconfigured` when the settings must be mended.
    """

    @property
    def url(self) -> str:
        """Where this store is, for people; never holds a secret."""

    async def put(self, key: str, data: Data) -> None:
        """Create the object; it is durable when this returns. The same bytes again succeed, since
        the first answer may have been lost; other bytes under a taken key raise `Corrupt`."""

    async def get(self, key: str) -> bytes:
        """The whole object."""

    async def get_ranges(self, key: str, starts: Sequence[int], lengths: Sequence[int]) -> Ranges:
        """The bytes of each range, in one call; a range beyond the object's end is `Corrupt`."""

    async def head(self, key: str) -> int:
        """The object's size in bytes."""

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete the objects; one that is not there counts as deleted."""

    def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """The objects below `prefix`, which is empty or ends with a slash, page by page and in no
        promised order. Objects that come or go meanwhile may or may not be shown."""


def check_key(key: str) -> None:
    """Raise `Rejected` unless the key is one that every store can hold."""
    if _KEY.fullmatch(key) is None:
        raise Rejected("an object key must be a path of plain components", key=repr(key))


def check_prefix(prefix: str) -> None:
    """Raise `Rejected` unless the prefix is empty or whole components with a final slash."""
    if _PREFIX.fullmatch(prefix) is None:
        raise Rejected("a prefix must be empty or end with a slash", prefix=repr(prefix))


def check_ranges(starts: Sequence[int], lengths: Sequence[int]) -> None:
    """Raise `Rejected` unless each start has a length and neither is negative."""
    if len(starts) != len(lengths):
        raise Rejected("every range needs a start and a length", starts=starts, lengths=lengths)
    if any(start < 0 for start in starts) or any(length < 0 for length in lengths):
        raise Rejected("a range cannot be negative", starts=starts, lengths=lengths)


def check_same(url: str, key: str, stored: bytes, data: Data) -> None:
    """Raise `Corrupt` unless the object found under a key is the one that was to be created."""
    # bytes against bytes is memcmp; a memoryview is compared element by element.
    if stored == (data if isinstance(data, bytes) else bytes(data)):
        return
    raise Corrupt(
        "another object already lies under this key",
        store=url,
        key=key,
        expected=f"{len(data)} bytes",
        actual=f"{len(stored)} bytes" + (" that differ" if len(stored) == len(data) else ""),
    )


def short_read(url: str, key: str, *, start: int, expected: int, actual: int) -> Corrupt:
    """The error for an object that holds fewer bytes than it must."""
    return Corrupt(
        "the object is shorter than it must be",
        store=url,
        key=key,
        start=start,
        expected=expected,
        actual=actual,
    )
