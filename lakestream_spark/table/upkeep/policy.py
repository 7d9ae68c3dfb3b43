"""The figures of upkeep."""

from dataclasses import dataclass
from typing import Final

_MIB: Final = 1024 * 1024
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """When small files become big ones."""

    target_bytes: int = 256 * _MIB
    """The size of a good file; three quarters of it are big enough."""
    min_files: int = 16
    """So many small files in a row are merged at once; fewer wait for the hour."""
    max_bytes: int = 4096 * _MIB
    """What one rewrite reads at most, so that the others do not wait long for their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPolicy:
    """Which snapshots stay: the newest, one of each hour and one of each day."""

    newest: int = 100
    hours: int = 24
    days: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanPolicy:
    """How long a file that nothing refers to stays for those who still read it."""

    grace_ms: int = 24 * _HOUR_MS
    metadata_grace_ms: int = 10 * _MINUTE_MS
    """For the catalog's metadata files, which are read at once or never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepPolicy:
    """All of it."""

    merge: MergePolicy = MergePolicy()
    snapshots: SnapshotPolicy = SnapshotPolicy()
    orphans: OrphanPolicy = OrphanPolicy()
    max_manifests: int = 200
    """A table with more manifests gets few large ones: beyond what our commits gather themselves,
    others have made many."""
    checkpoint_after: int = 50
    """A Delta log this many versions after its checkpoint gets the next one."""
    seldom_ms: int = _HOUR_MS
    """How often few small files are merged and orphans are looked for."""
