"""The story as far as it was told: which chapters, when, and whether it held."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

CHAPTERS: Final = (
    "started",
    "produced",
    "acknowledged",
    "committed",
    "queried",
    "replayed",
    "verified",
)
"""In this order, each once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """What happened, and how many seconds after the start."""

    name: str
    text: str
    at_s: float
    details: Sequence[str] = ()
    """Lines below it: a query, its answer."""


@dataclass(slots=True)
class Story:
    """What was told so far."""

    told: list[Chapter] = field(default_factory=list)

    @property
    def next(self) -> str | None:
        """The chapter that comes now; None at the end."""
        return None if self.held else CHAPTERS[len(self.told)]

    @property
    def held(self) -> bool:
        """Whether every chapter came to pass."""
        return len(self.told) == len(CHAPTERS)

    @property
    def missing(self) -> Sequence[str]:
        return CHAPTERS[len(self.told) :]

    def tell(self, chapter: Chapter) -> None:
        if chapter.name != self.next:
            raise ValueError(f"{chapter.name} is told, and {self.next} comes next")
        self.told.append(chapter)
