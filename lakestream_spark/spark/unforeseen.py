"""Errors that no code foresaw: what is said of them, so that a loop can go on after any of them.

What always holds: a sentence is one line of bounded length and names the kind of the error.
"""

from typing import Final

from lakestream_spark.core.errors import LakestreamError

_LONGEST: Final = 500


def is_foreseen(error: Exception) -> bool:
    """Whether somebody wrote a sentence for it; else its trace is what helps."""
    return isinstance(error, LakestreamError)


def told(error: Exception) -> str:
    """What happened, in one line."""
    text = " ".join(str(error).split())
    if not is_foreseen(error):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
