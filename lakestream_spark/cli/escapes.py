r"""Escapes in what is typed, after the habits of kcat: \n, \t, \r, \0, \\ and \xNN for any byte."""

import os
import re
from typing import Final

ESCAPE: Final = r"\\(?:x[0-9a-fA-F]{2}|.)"
"""What `escaped` takes; a backslash at the very end is a backslash."""
_NAMED: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0"}
_PARTS: Final = re.compile(rf"({ESCAPE})", re.DOTALL)


def unescaped(text: str) -> bytes:
    """The bytes that the text stands for."""
    # Every second part is an escape.
    parts = _PARTS.split(text)
    return b"".join(escaped(p) if at % 2 else typed_bytes(p) for at, p in enumerate(parts))


def escaped(escape: str) -> bytes:
    """The byte of one escape; what is no name of one is that character itself."""
    name = escape[1:]
    if len(name) == 3:
        return bytes.fromhex(name[1:])
    return _NAMED.get(name, typed_bytes(name))


def typed_bytes(text: str) -> bytes:
    """As they were typed: an argument may hold bytes that are no text."""
    return os.fsencode(text)
