"""How much of a disk an installation takes, by what brings it.

What always holds: a file counts with the blocks it takes, and with its bytecode beside it; a file
that a package manager linked from its cache counts as if it were alone.
"""

import sys
from importlib.metadata import Distribution, distribution
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT: Final = "lakestream-spark"
FOR_USERS: Final = ("jobs", "spark", "sql", "quality", "postgres")
_BLOCK: Final = 512


def taken(path: Path) -> int:
    """Bytes of the disk under a file or folder; 0 when it is not there."""
    if path.is_symlink() or not path.exists():
        return 0
    if path.is_dir():
        return sum(taken(each) for each in path.iterdir())
    return path.stat().st_blocks * _BLOCK


def environment() -> Path:
    """The virtual environment of this process."""
    return Path(sys.prefix)


def for_users() -> int:
    """Everything that the package needs with each of the extras that users have a use for."""
    return sum(_of(distribution(name)) for name in _needed(PROJECT, FOR_USERS))


def _needed(name: str, extras: tuple[str, ...]) -> set[str]:
    """The names of a package and of all that it asks for, and that these ask for."""
    found: set[tuple[str, str]] = set()
    left = [(canonicalize_name(name), extra) for extra in ("", *extras)]
    while left:
        own = left.pop()
        if own in found:
            continue
        found.add(own)
        for text in distribution(own[0]).requires or ():
            asked = Requirement(text)
            if asked.marker is None or asked.marker.evaluate({"extra": own[1]}):
                left += [(canonicalize_name(asked.name), each) for each in ("", *asked.extras)]
    return {name for name, _ in found}


def _of(package: Distribution) -> int:
    total = 0
    for each in package.files or ():
        path = Path(str(package.locate_file(each)))
        total += taken(path)
        if path.suffix == ".py":
            total += taken(Path(cache_from_source(str(path))))
    return total
