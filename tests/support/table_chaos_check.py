"""What must hold of a topic's table when everything is in it: each offset once, in every snapshot.

Every retained snapshot is walked by its manifests, and every file that any of them names is read:
so each row of each snapshot is accounted for, while each file is read once.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakestream_spark.table import delta_log
from lakestream_spark.table.columns import OFFSET, PARTITION, VALUE
from lakestream_spark.table.delta_changes import files_of
from lakestream_spark.table.delta_files import MirroredFile, mirrored_file
from lakestream_spark.table.layout import ENDS_PROPERTY, decode_ends
from lakestream_spark.table.upkeep import orphans
from lakestream_spark.table.upkeep.folder import TableFolder
from lakestream_spark.table.upkeep.policy import OrphanPolicy
from lakestream_spark.table.upkeep.references import referenced
from tests.support.checker import Row

_COLUMNS = [PARTITION, OFFSET, VALUE]
_NO_GRACE = OrphanPolicy(grace_ms=0, metadata_grace_ms=0)
Ends = dict[int, int]


@dataclass(slots=True)
class TableFindings:
    """What is wrong with a table, its rows by partition, and figures."""

    anomalies: list[str] = field(default_factory=list)
    rows: dict[int, list[Row]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)


def check_table(table: Table, *, has_delta: bool) -> TableFindings:
    """Deletes the orphans first: whatever misses one of them is told by the checks that follow."""
    findings = TableFindings()
    _delete_orphans(table, findings)
    history = _History(table)
    findings.anomalies += history.anomalies()
    findings.counts["snapshots"] += len(table.snapshots())
    findings.counts["files read"] += len(history.files)
    findings.counts["hot commits"] += history.commits_with_many_files()
    findings.anomalies += [
        text for file in history.files.values() for text in _file_anomalies(table, file)
    ]
    rows = table.scan(selected_fields=tuple(_COLUMNS)).to_arrow()
    rows = rows.select(_COLUMNS).sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")])
    for partition, offset, value in zip(*(rows[c].to_pylist() for c in _COLUMNS), strict=True):
        findings.rows[partition].append((offset, value.decode()))
    if has_delta:
        findings.anomalies += _delta_anomalies(table, rows, history.current())
    return findings


def _delete_orphans(table: Table, findings: TableFindings) -> None:
    """What upkeep would delete once nobody can be reading it any more."""
    folder = TableFolder(table)
    listed = folder.list()
    verdict = orphans.judge(listed, referenced(table, []), {}, time.time_ns() // 10**6, _NO_GRACE)
    orphaned = [path for path in verdict.doomed if path.endswith(".parquet")]
    findings.counts["orphaned data files"] += len(orphaned)
    findings.counts["orphaned other files"] += len(verdict.doomed) - len(orphaned)
    folder.delete(verdict.doomed)


class _History:
    """The retained snapshots in order, each with its files."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._manifests: dict[str, list[MirroredFile]] = {}
        self.snapshots = sorted(table.snapshots(), key=lambda each: each.sequence_number or 0)
        self.live = [self._live(snapshot) for snapshot in self.snapshots]
        self.files = {file.path: file for own in self.live for file in own}

    def current(self) -> dict[str, MirroredFile]:
        snapshot = self._table.current_snapshot()
        assert snapshot is not None
        assert snapshot == self.snapshots[-1], "the current snapshot is not the newest"
        return {file.path: file for file in self.live[-1]}

    def anomalies(self) -> Iterator[str]:
        """Each snapshot is [0, end) of each partition, once; ends are told and never move back."""
        before: Ends = {}
        for snapshot, files in zip(self.snapshots, self.live, strict=True):
            ends, found = _tiled(files)
            yield from (f"snapshot {snapshot.snapshot_id}: {text}" for text in found)
            told = _told(snapshot)
            if told is not None and told != ends:
                yield f"snapshot {snapshot.snapshot_id} says {told} and has {ends}"
            back = {p: (end, ends.get(p, 0)) for p, end in before.items() if ends.get(p, 0) < end}
            if back:
                yield f"snapshot {snapshot.snapshot_id} moved ends back: {back}"
            before = ends
        if decode_ends(self._table.properties[ENDS_PROPERTY]) != _padded(before):
            yield f"the table says {self._table.properties[ENDS_PROPERTY]} and has {before}"

    def commits_with_many_files(self) -> int:
        """Commits that added more than one file of the same partition."""
        count = 0
        for before, after in pairwise([[], *self.live]):
            known = {file.path for file in before}
            added = Counter(file.partition for file in after if file.path not in known)
            count += max(added.values(), default=0) > 1
        return count

    def _live(self, snapshot: Snapshot) -> list[MirroredFile]:
        specs = self._table.specs()
        files: list[MirroredFile] = []
        for manifest in snapshot.manifests(self._table.io):
            if manifest.manifest_path not in self._manifests:
                self._manifests[manifest.manifest_path] = [
                    mirrored_file(entry, self._table, specs[manifest.partition_spec_id])
                    for entry in manifest.fetch_manifest_entry(self._table.io)
                ]
            files += self._manifests[manifest.manifest_path]
        return files


def _tiled(files: Sequence[MirroredFile]) -> tuple[Ends, list[str]]:
    """Where each partition ends, and every gap and overlap before that."""
    ends: Ends = defaultdict(int)
    found: list[str] = []
    for file in sorted(files, key=lambda each: (each.partition, each.offsets or (0, 0))):
        assert file.offsets is not None, file
        first, last = file.offsets
        if first != ends[file.partition] or file.rows != last + 1 - first:
            found.append(f"{file.path} has {file.rows} rows, after {ends[file.partition]}")
        ends[file.partition] = max(ends[file.partition], last + 1)
    return dict(ends), found


def _told(snapshot: Snapshot) -> Ends | None:
    """The ends in the summary, which rewrites by others do not carry."""
    told = snapshot.summary[ENDS_PROPERTY] if snapshot.summary else None
    return None if told is None else {p: end for p, end in decode_ends(told).items() if end}


def _padded(ends: Mapping[int, int]) -> Ends:
    return {partition: ends.get(partition, 0) for partition in range(max(ends, default=-1) + 1)}


def _file_anomalies(table: Table, file: MirroredFile) -> Iterator[str]:
    """The file is there, with its size, and holds what the manifests say of it, in order."""
    place = table.io.new_input(f"{table.location()}/{file.path}")
    try:
        if len(place) != file.size:
            yield f"{file.path} has {len(place)} bytes and not {file.size}"
        with place.open() as stream:
            rows = pq.ParquetFile(stream).read(columns=[PARTITION, OFFSET])
    except OSError as error:
        yield f"{file.path}: {error}"
        return
    assert file.offsets is not None
    first, last = file.offsets
    if rows[OFFSET].to_pylist() != list(range(first, last + 1)):
        yield f"{file.path} does not hold {first} … {last} in order"
    if rows[PARTITION].unique().to_pylist() != [file.partition]:
        yield f"{file.path} holds rows of other partitions than {file.partition}"


def _delta_anomalies(
    table: Table, rows: pa.Table, files: Mapping[str, MirroredFile]
) -> Iterator[str]:
    log = delta_log.open_log(table)
    if log is None:
        yield "there is no Delta log"
        return
    if set(files_of(log)) != set(files):
        yield f"Delta and Iceberg differ by {sorted(set(files_of(log)) ^ set(files))[:10]}"
        return
    mirrored = log.to_pyarrow_table(columns=_COLUMNS)
    mirrored = mirrored.sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")])
    if any(mirrored[name].to_pylist() != rows[name].to_pylist() for name in _COLUMNS):
        yield "Delta has other rows than Iceberg"
