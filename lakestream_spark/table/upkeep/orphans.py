"""Files that nothing needs any more, deleted one by one after a grace period.

What always holds: a file goes only if this was seen at two looks with the grace period between
them, so whoever was told of it had that long to read it; nothing but files of the kinds that tables
have is touched. The times of the first look are a note below the table's root: a lost note costs
time and nothing else.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from lakestream_spark.table.upkeep.policy import OrphanPolicy

NOTE: Final = "orphans"
_KINDS: Final = (".parquet", ".avro", ".metadata.json", ".puffin", ".stats", ".crc", ".batch")
_CHECKSUM: Final = re.compile(r"(^|/)\.([^/]+)\.crc$")


class Verdict(NamedTuple):
    """What goes now, and since when the others have been waiting."""

    doomed: tuple[str, ...]
    waiting: Mapping[str, int]


def judge(
    listed: Iterable[str],
    needed: Collection[str],
    since_ms: Mapping[str, int],
    now_ms: int,
    policy: OrphanPolicy,
) -> Verdict:
    """Pure: from what lies there, what is needed and what was seen before."""
    doomed: list[str] = []
    waiting: dict[str, int] = {}
    for path in listed:
        if not path.endswith(_KINDS) or _owner(path) in needed:
            continue
        first_seen = min(since_ms.get(path, now_ms), now_ms)
        if now_ms - first_seen >= _grace(path, policy):
            doomed.append(path)
        else:
            waiting[path] = first_seen
    return Verdict(tuple(doomed), waiting)


def _owner(path: str) -> str:
    """The file itself, or the one whose checksum it is: Hadoop keeps those beside local files."""
    return _CHECKSUM.sub(r"\1\2", path)


def _grace(path: str, policy: OrphanPolicy) -> int:
    is_metadata = _owner(path).endswith(".metadata.json")
    return policy.metadata_grace_ms if is_metadata else policy.grace_ms
