"""Values of records and rows as people and other programs read them.

What always holds: bytes that are UTF-8 are that text, and others are base64 that is marked as such;
a time is UTC.
"""

import json
from base64 import b64encode
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, bytes):
        text = _utf8(value)
        return {"base64": b64encode(value).decode()} if text is None else text
    if isinstance(value, dict):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int | float) else str(value)


def shown(value: Any) -> str:
    """A value in a cell."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        text = _utf8(value)
        return f"base64:{b64encode(value).decode()}" if text is None else text
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, Decimal | float | date | time):
        return str(value)
    return json.dumps(plain(value), ensure_ascii=False)


def _utf8(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _number(value: Decimal) -> int | float | str:
    """Exactly: a text where neither kind of number is the same."""
    if value == value.to_integral_value():
        return int(value)
    near = float(value)
    return near if Decimal(repr(near)) == value else str(value)
