"""Structured logs: one line per event, as `key=value` words or as JSON.

`event` logs a sentence and its facts; what is logged in the plain way of `logging` gets the same
line. What always holds: an event is one line, whatever its values hold; the same sentence from the
same place is written a few times at once and then about once a second, with the number of those
left out, so that a hostile client cannot fill the disk.
"""

import json
import logging
import re
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

Format = Literal["text", "json"]

_PLAIN: Final = re.compile(r"[^\s\"'=\\]+")
_BURST: Final = 10
_PER_SECOND: Final = 1.0
_MAX_SENTENCES: Final = 1000


def event(logger: logging.Logger, level: int, sentence: str, **facts: object) -> None:
    """Log one event: a sentence that is the same each time, and what is particular to this one."""
    if logger.isEnabledFor(level):
        logger.log(level, "%s", sentence, extra={"facts": facts, "sentence": sentence})


def configure(
    *,
    level: str,
    form: Format,
    stream: TextIO | None = None,
    context: Mapping[str, object] | None = None,
) -> None:
    """Send all logs of this process to `stream` (stderr); `context` is a part of every line."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Json(context or {}) if form == "json" else _Text(context or {}))
    handler.addFilter(Throttle())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    # Libraries tell what is wrong only; the level is about our own events.
    root.setLevel(logging.WARNING)
    logging.getLogger("lakestream_spark").setLevel(level.upper())


class Throttle(logging.Filter):
    """Lets a sentence pass `_BURST` times at once, then `_PER_SECOND` times a second."""

    def __init__(self) -> None:
        super().__init__()
        self._buckets: dict[tuple[str, str], tuple[float, float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        key = (record.name, getattr(record, "sentence", str(record.msg)))
        now = time.monotonic()
        tokens, since, left_out = self._buckets.get(key, (float(_BURST), now, 0))
        tokens = min(float(_BURST), tokens + (now - since) * _PER_SECOND)
        if len(self._buckets) >= _MAX_SENTENCES:
            self._buckets.clear()
        if tokens < 1:
            self._buckets[key] = (tokens, now, left_out + 1)
            return False
        self._buckets[key] = (tokens - 1, now, 0)
        if left_out:
            record.left_out = left_out
        return True


class _Lines(logging.Formatter):
    """The parts of a line, the same for both formats."""

    def __init__(self, context: Mapping[str, object]) -> None:
        super().__init__()
        self._context = dict(context)

    def parts(self, record: logging.LogRecord) -> dict[str, object]:
        at = datetime.fromtimestamp(record.created, UTC)
        found: dict[str, object] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "from": record.name.removeprefix("lakestream_spark."),
            "event": record.getMessage(),
            **self._context,
            **getattr(record, "facts", {}),
        }
        if hasattr(record, "left_out"):
            found["left_out"] = record.left_out
        if record.exc_info:
            found["trace"] = self.formatException(record.exc_info)
        return found


class _Text(_Lines):
    """`2026-01-31T12:00:00.000Z info ingress.server the sentence key=value key="two words"`."""

    def format(self, record: logging.LogRecord) -> str:
        parts = self.parts(record)
        head = [str(parts.pop(name)) for name in ("time", "level", "from", "event")]
        head[-1] = _one_line(head[-1])
        return " ".join([*head, *(f"{key}={_word(value)}" for key, value in parts.items())])


class _Json(_Lines):
    """One JSON object per line; what JSON has no word for is written as text."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.parts(record), default=str)


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _word(value: object) -> str:
    text = str(value)
    if _PLAIN.fullmatch(text) and text.isprintable():
        return text
    return _one_line(json.dumps(text, ensure_ascii=False))
