"""The named steps of a commit: between any two of them the process may die."""

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias


class Step(StrEnum):
    """In the order they are reached."""

    FILES_WRITTEN = "the tasks wrote their files"
    INTENT_SAVED = "the intent names them"
    TABLE_APPENDED = "the table has them"
    ENDS_MOVED = "the table ends moved and the extents are forgotten"
    DELTA_MIRRORED = "Delta has them too"


Reached: TypeAlias = Callable[[Step], None]
"""Told after each step; tests end the process there."""


def unobserved(_: Step) -> None:
    """Nobody watches."""
