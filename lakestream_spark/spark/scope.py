"""What a compaction job works on."""

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which topics a job works on, and under which name."""

    job: str
    topics: str = "*"
    drain: bool = False
    """Everything is due at once, lag targets do not count."""

    def covers(self, name: str) -> bool:
        return fnmatchcase(name, self.topics)
