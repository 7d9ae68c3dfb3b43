"""Every file that something still needs: snapshots, the metadata log, Delta, the intent."""

from collections.abc import Iterable, Iterator

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakestream_spark.table import delta_changes, delta_log
from lakestream_spark.table.places import relative


def referenced(table: Table, intended: Iterable[str]) -> set[str]:
    """Paths relative to the table's root; `intended` are files of a commit that is being made, and
    batches that were set aside.

    A version of Delta that mirrors a retained snapshot needs no file beyond that snapshot's.
    """
    places = [*_metadata_files(table), *_files_of_snapshots(table), *intended]
    found = {path for place in places if (path := relative(place, table.location())) is not None}
    log = delta_log.open_log(table)
    return found if log is None else found | set(delta_changes.files_of(log))


def _metadata_files(table: Table) -> Iterator[str]:
    yield table.metadata_location
    yield from (entry.metadata_file for entry in table.metadata.metadata_log)
    yield from (statistics.statistics_path for statistics in table.metadata.statistics)
    yield from (statistics.statistics_path for statistics in table.metadata.partition_statistics)


def _files_of_snapshots(table: Table) -> Iterator[str]:
    seen: set[str] = set()
    for snapshot in table.snapshots():
        yield snapshot.manifest_list
        yield from _files_of(snapshot, table, seen)


def _files_of(snapshot: Snapshot, table: Table, seen: set[str]) -> Iterator[str]:
    """Manifests and their live files, each manifest once."""
    for manifest in snapshot.manifests(table.io):
        if manifest.manifest_path not in seen:
            seen.add(manifest.manifest_path)
            yield manifest.manifest_path
            yield from (e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io))
