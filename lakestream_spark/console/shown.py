"""Bytes that clients sent, as a person can read them: text, indented JSON and hex.

What always holds: nothing is interpreted but by these three ways, and at most so much of it is
shown that a page stays quick.
"""

import json
from codecs import getincrementaldecoder
from collections.abc import Mapping
from typing import Any, Final

_TEXT_BYTES: Final = 64 * 1024
_HEX_BYTES: Final = 4 * 1024
_PRINTABLE: Final = frozenset("\t\n\r")
_utf8: Final = getincrementaldecoder("utf-8")


def shown(data: bytes | None) -> Mapping[str, Any] | None:
    """What the page shows of a key, a value or a header's value; null stays null."""
    if data is None:
        return None
    text = _text(data)
    return {
        "size": len(data),
        "text": text,
        "json": None if text is None or len(data) > _TEXT_BYTES else _indented(text),
        "hex": data[:_HEX_BYTES].hex(" "),
        "cut": len(data) > (_HEX_BYTES if text is None else _TEXT_BYTES),
    }


def name(data: bytes) -> str:
    """The key of a header, which need not be UTF-8."""
    return data.decode(errors="backslashreplace")


def _text(data: bytes) -> str | None:
    """The beginning, if it is UTF-8 without control characters."""
    beginning = data[:_TEXT_BYTES]
    try:
        # A character that the cut goes through is left out.
        text = _utf8().decode(beginning, final=len(beginning) == len(data))
    except UnicodeDecodeError:
        return None
    plain = all(each >= " " or each in _PRINTABLE for each in text)
    return text if plain else None


def _indented(text: str) -> str | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    # Too deep, or a number with more digits than Python takes.
    except (ValueError, RecursionError):
        return None
