"""Plans of a table while its metadata changes, is not there, or cannot be asked for."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.table import Table

from lakestream_spark.core.errors import RedTable, Unavailable
from lakestream_spark.history import plans as module
from lakestream_spark.history.plans import TopicPlan
from lakestream_spark.history.tally import Tally, Timed
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.upkeep.policy import SnapshotPolicy
from lakestream_spark.table.upkeep.snapshots import apply, changes_of
from tests.support.history import append_rows
from tests.support.rewriting import rewrite
from tests.support.tables import TableFiles, rows

NEWEST_ONLY = SnapshotPolicy(newest=1, hours=0, days=0)


class Told:
    """A catalog that first gives what it is told to, and then what there is."""

    def __init__(self, tables: StreamCatalog, *first: Table | Exception) -> None:
        self._tables = tables
        self.first = list(first)

    def load_lawful(self, layout: Any) -> Table | None:
        if not self.first:
            return self._tables.load_lawful(layout)
        told = self.first.pop(0)
        if isinstance(told, Exception):
            raise told
        return told


@pytest.fixture
def two_rows(tables: StreamCatalog, files: TableFiles) -> None:
    append_rows(tables, files, rows(0, [b"a", b"b"]), start=0, end=2)


def plan_of(told: Told, files: TableFiles, now: list[float] | None = None) -> TopicPlan:
    clock = time.monotonic if now is None else lambda: now[0]
    return TopicPlan(told, files.layout, clock, Tally())  # type: ignore[arg-type]


def test_a_snapshot_that_expires_before_its_manifests_are_read_is_planned_anew(
    tables: StreamCatalog, topic: Topic, files: TableFiles, two_rows: None
) -> None:
    stale = tables.load_lawful(files.layout)
    assert stale is not None
    old = [each.manifest_path for each in stale.snapshots()[-1].manifests(stale.io)]
    rewrite(
        tables._catalog.load_table(files.layout.identifier),
        [stale.scan().to_arrow()],
        row_group_rows=10,
    )
    append_rows(tables, files, rows(2, [b"c"]), start=2, end=3)
    table = tables._catalog.load_table(files.layout.identifier)
    assert apply(table, changes_of(table, time.time_ns() // 10**6, NEWEST_ONLY))
    for path in old:
        Path(path.removeprefix("file://")).unlink()
    plan = plan_of(Told(tables, stale), files).current()
    assert plan.end(0) == 3
    assert sum(file.rows for file in plan.data) == 3


def test_metadata_that_is_never_readable_is_a_retriable_error(
    tables: StreamCatalog, topic: Topic, files: TableFiles, two_rows: None
) -> None:
    table = tables.load_lawful(files.layout)
    assert table is not None
    for each in table.snapshots()[-1].manifests(table.io):
        Path(each.manifest_path.removeprefix("file://")).unlink()
    with pytest.raises(Unavailable, match="metadata is not readable"):
        plan_of(Told(tables), files).current()


def test_a_catalog_that_is_silent_takes_no_plan_away_and_lets_nobody_go_beyond_it(
    tables: StreamCatalog, topic: Topic, files: TableFiles, two_rows: None
) -> None:
    now = [100.0]
    told = Told(tables)
    plans = plan_of(told, files, now)
    known = plans.current()
    append_rows(tables, files, rows(2, [b"c"]), start=2, end=3)
    for _ in range(3):
        now[0] += 10
        told.first = [Unavailable("nobody answers")]
        assert plans.current() is known
    told.first = [Unavailable("nobody answers")]
    with pytest.raises(Unavailable):
        plans.newer()
    assert plans.newer().end(0) == 3


def test_a_damaged_metadata_file_takes_no_plan_away_and_lets_nobody_go_beyond_it(
    tables: StreamCatalog, topic: Topic, files: TableFiles, two_rows: None
) -> None:
    now, asked = [100.0], Slow(tables)
    plans = plan_of(asked, files, now)
    known = plans.current()
    append_rows(tables, files, rows(2, [b"c"]), start=2, end=3)
    newest = Path(metadata_file(tables, files))
    whole = newest.read_bytes()
    newest.write_bytes(whole[: len(whole) // 2])
    for _ in range(3):
        now[0] += 70
        assert plans.current() is known
        assert plans.current() is known
    assert asked.asked == 4, "one look each time, and not one for every reader"
    with pytest.raises(RedTable, match="is damaged"):
        plans.newer()
    with pytest.raises(RedTable, match="is damaged"):
        plan_of(Told(tables), files).current()
    newest.write_bytes(whole)
    assert plans.newer().end(0) == 3


def metadata_file(tables: StreamCatalog, files: TableFiles) -> str:
    table = tables._catalog.load_table(files.layout.identifier)
    return table.metadata_location.removeprefix("file://")


def test_a_snapshot_that_is_to_blame_takes_the_plan_away(
    tables: StreamCatalog, topic: Topic, files: TableFiles, two_rows: None
) -> None:
    now, told = [100.0], Told(tables)
    plans = plan_of(told, files, now)
    plans.current()
    now[0] += 10
    told.first = [RedTable("the deletes cannot be applied", snapshot_id=7, remedy="rewrite")]
    with pytest.raises(RedTable, match="cannot be applied"):
        plans.current()


class Slow(Told):
    """A catalog that takes its time while it is told to."""

    def __init__(self, tables: StreamCatalog) -> None:
        super().__init__(tables)
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.asked = 0

    def load_lawful(self, layout: Any) -> Table | None:
        self.asked += 1
        assert self.goes_on.wait(60)
        return super().load_lawful(layout)


def test_offsets_that_are_planned_are_read_while_a_look_for_a_newer_plan_takes_long(
    tables: StreamCatalog, files: TableFiles, two_rows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAIT_AFTER_S", 0.05)
    now, slow = [100.0], Slow(tables)
    plans = TopicPlan(slow, files.layout, lambda: now[0], Tally(), 0.05)  # type: ignore[arg-type]
    known = plans.current()
    append_rows(tables, files, rows(2, [b"c"]), start=2, end=3)
    slow.goes_on.clear()
    for _ in range(5):
        now[0] += 11
        assert plans.current() is known
        with pytest.raises(Unavailable, match="still being looked at"):
            plans.newer()
    now[0] += 6
    with pytest.raises(Unavailable, match="still being looked at"):
        plans.current()
    assert slow.asked == 2, "the first look, and one for all who wait"
    slow.goes_on.set()
    plans.close()
    assert plans.newer().end(0) == 3


def test_a_look_goes_on_when_nobody_waits_for_it_any_more(
    tables: StreamCatalog, files: TableFiles, two_rows: None
) -> None:
    slow = Slow(tables)
    slow.goes_on.clear()
    now = [100.0]
    plans = TopicPlan(slow, files.layout, lambda: now[0], Tally(), 0.05)  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match="still being looked at"):
        plans.current()
    slow.goes_on.set()
    plans.close()
    assert plans.current().end(0) == 2
    assert slow.asked == 1


def test_a_metadata_file_is_planned_once(
    tables: StreamCatalog, topic: Topic, files: TableFiles, two_rows: None
) -> None:
    tally = Tally()
    plans = TopicPlan(tables, files.layout, time.monotonic, tally)
    assert plans.newer() is plans.newer()
    assert [what for what, _ in tally.take().seconds] == [Timed.PLAN]


def test_a_new_snapshot_is_planned_by_its_new_manifests_alone(
    tables: StreamCatalog, files: TableFiles, two_rows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    read = ManifestFile.fetch_manifest_entry

    def noted(
        manifest: ManifestFile, io: FileIO, discard_deleted: bool = True
    ) -> list[ManifestEntry]:
        opened.append(manifest.manifest_path)
        return read(manifest, io, discard_deleted)

    plans = TopicPlan(tables, files.layout, time.monotonic, Tally())
    plans.newer()
    for offset in (2, 3, 4):
        append_rows(tables, files, rows(offset, [b"c"]), start=offset, end=offset + 1)
        with monkeypatch.context() as patched:
            patched.setattr(ManifestFile, "fetch_manifest_entry", noted)
            plan = plans.newer()
        assert (plan.end(0), len(plan.data)) == (offset + 1, offset)
    assert len(opened) == len(set(opened)) == 3
