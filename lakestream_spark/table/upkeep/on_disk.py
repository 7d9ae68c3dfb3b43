"""What others wrote into a table on a local disk is there after a crash, not only in a cache.

Our own commits sync what they write before the catalog points at it; Spark, which rewrites files,
does not. A bucket needs nothing of this.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath

from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakestream_spark.table.durable import sync
from lakestream_spark.table.places import canonical


def sync_changes(before: Table, after: Table) -> None:
    """Sync the files and folders of the snapshots that the table got since."""
    root = canonical(after.location())
    if not root.startswith("/"):
        return
    known = {snapshot.snapshot_id for snapshot in before.snapshots()}
    written = {canonical(after.metadata_location)}
    for snapshot in after.snapshots():
        if snapshot.snapshot_id not in known:
            written.update(canonical(place) for place in _written_by(snapshot, after))
    # A folder is synced with the one above it, which holds its name.
    folders = {
        str(folder)
        for path in written
        for folder in PurePosixPath(path).parents
        if folder.is_relative_to(root)
    }
    sync([*sorted(written), *sorted(folders)])


def _written_by(snapshot: Snapshot, table: Table) -> Iterator[str]:
    yield snapshot.manifest_list
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        yield manifest.manifest_path
        for entry in manifest.fetch_manifest_entry(table.io):
            if entry.status is ManifestEntryStatus.ADDED:
                yield entry.data_file.file_path
