"""Files of a local warehouse are on the disk, not only in its cache, before others rely on them.

A bucket needs nothing of this: what it acknowledged is durable.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from lakestream_spark.table.places import canonical


def sync(locations: Iterable[str]) -> None:
    """Sync the local files among these, then each of their folders once."""
    paths = [path for location in locations if (path := _local(location)) is not None]
    for path in paths:
        _sync(path)
    for folder in {path.parent for path in paths}:
        _sync(folder)


def _local(location: str) -> Path | None:
    path = canonical(location)
    return Path(path) if path.startswith("/") else None


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
