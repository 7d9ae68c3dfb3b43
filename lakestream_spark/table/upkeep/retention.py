"""Rows that are older than the topic keeps them leave the table by whole files; consumers lose
sight, by whole files too, of what is older or more than the topic's log may have.

What always holds: what leaves is the beginning of a partition, so that its rows stay one range up
to the end; the ends of the stream do not change. A file goes when its newest record is too old, so
nothing goes early.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.table import Table, TableProperties

from lakestream_spark.table.delta_files import MirroredFile, relative_path
from lakestream_spark.table.layout import ENDS_PROPERTY, UPKEEP_PROPERTY


class Leaving(NamedTuple):
    """Files that go, and the first offset of each partition that stays."""

    paths: frozenset[str]
    starts: Mapping[int, int]


def too_old(files: Iterable[MirroredFile], before_ms: int) -> Leaving:
    """The longest beginning of each partition all of whose files end before that time. Pure."""
    paths: set[str] = set()
    starts: dict[int, int] = {}
    for partition, own in _by_partition(files).items():
        gone = _beginning(own, before_ms)
        if gone:
            paths.update(file.path for file in gone)
            starts[partition] = max(file.offsets[1] + 1 for file in gone if file.offsets)
    return Leaving(frozenset(paths), starts)


def beyond_size(files: Iterable[MirroredFile], most_bytes: int) -> dict[int, int]:
    """The first offset to keep of each partition that has more bytes than that. Pure.

    Like Kafka: a file goes when what is left without it is still enough.
    """
    starts: dict[int, int] = {}
    for partition, own in _by_partition(files).items():
        if any(file.offsets is None for file in own):
            continue
        kept, first = 0, 0
        for file in sorted(own, key=_first, reverse=True):
            if kept >= most_bytes:
                starts[partition] = first
                break
            kept, first = kept + file.size, _first(file)
    return starts


def _by_partition(files: Iterable[MirroredFile]) -> dict[int, list[MirroredFile]]:
    partitions: dict[int, list[MirroredFile]] = defaultdict(list)
    for file in files:
        partitions[file.partition].append(file)
    return partitions


def _beginning(files: list[MirroredFile], before_ms: int) -> list[MirroredFile]:
    if any(file.offsets is None for file in files):
        return []
    ordered = sorted(files, key=lambda file: file.offsets or (0, 0))
    count = 0
    while count < len(ordered) and _is_before(ordered[count], before_ms):
        count += 1
    # Files may overlap: what goes must end before the first that stays begins.
    while 0 < count < len(ordered) and _last(ordered[:count]) >= _first(ordered[count]):
        count -= 1
    return ordered[:count]


def _is_before(file: MirroredFile, before_ms: int) -> bool:
    return file.micros is not None and file.micros[1] < before_ms * 1000


def _last(files: list[MirroredFile]) -> int:
    return max(file.offsets[1] for file in files if file.offsets)


def _first(file: MirroredFile) -> int:
    return file.offsets[0] if file.offsets else 0


def remove(table: Table, paths: frozenset[str]) -> bool:
    """Take the files out as one commit, tried once; False when the table changed meanwhile."""
    table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
    summary = {ENDS_PROPERTY: table.properties.get(ENDS_PROPERTY, ""), UPKEEP_PROPERTY: "retention"}
    try:
        with table.transaction() as transaction:
            update = transaction.update_snapshot(snapshot_properties=summary)
            with update.overwrite() as overwrite:
                for file in _data_files(table, paths):
                    overwrite.delete_data_file(file)
            # Else a refusal deletes the manifests, also one that answers a repeated request.
            transaction._snapshot_producers.clear()
    except CommitFailedException:
        return False
    return True


def _data_files(table: Table, paths: frozenset[str]) -> list[DataFile]:
    snapshot = table.current_snapshot()
    return [
        entry.data_file
        for manifest in (snapshot.manifests(table.io) if snapshot else ())
        if manifest.content is ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(table.io)
        if relative_path(entry.data_file.file_path, table) in paths
    ]
