"""Which files are deleted, and that nothing that is needed is."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.table import Table

from lakestream_spark.table import delta_log
from lakestream_spark.table.columns import OFFSET
from lakestream_spark.table.delta import mirror
from lakestream_spark.table.upkeep import delta_care, orphans
from lakestream_spark.table.upkeep.folder import TableFolder
from lakestream_spark.table.upkeep.orphans import judge
from lakestream_spark.table.upkeep.policy import OrphanPolicy, SnapshotPolicy
from lakestream_spark.table.upkeep.references import referenced
from lakestream_spark.table.upkeep.snapshots import apply, changes_of
from tests.support.delta_tables import GrowingTable, in_delta, in_iceberg
from tests.support.embedded import catalog_spec

POLICY = OrphanPolicy(grace_ms=1000, metadata_grace_ms=10)


def test_a_file_goes_after_the_grace_period_and_not_at_first_sight():
    first = judge(["_data/a.parquet"], [], {}, 5000, POLICY)
    assert first.doomed == ()
    later = judge(["_data/a.parquet"], [], first.waiting, 5999, POLICY)
    assert later.doomed == ()
    assert judge(["_data/a.parquet"], [], later.waiting, 6000, POLICY).doomed == (
        "_data/a.parquet",
    )


def test_a_file_that_is_needed_again_starts_anew():
    first = judge(["a.parquet"], [], {}, 0, POLICY)
    needed = judge(["a.parquet"], ["a.parquet"], first.waiting, 900, POLICY)
    assert needed.waiting == {}


def test_metadata_files_go_sooner():
    verdict = judge(["_iceberg/1.metadata.json"], [], {"_iceberg/1.metadata.json": 0}, 10, POLICY)
    assert verdict.doomed == ("_iceberg/1.metadata.json",)


def test_a_checksum_stays_with_its_file_and_goes_with_it():
    paths = ["_data/a.parquet", "_data/.a.parquet.crc"]
    assert judge(paths, ["_data/a.parquet"], {}, 0, POLICY).waiting == {}
    assert set(judge(paths, [], dict.fromkeys(paths, 0), 1000, POLICY).doomed) == set(paths)


def test_files_of_other_kinds_are_never_touched():
    assert judge(["README.md", "_iceberg/x.json"], [], {}, 0, POLICY).waiting == {}


def test_a_clock_that_went_back_shortens_nothing():
    verdict = judge(["a.parquet"], [], {"a.parquet": 10_000}, 5000, POLICY)
    assert verdict.waiting == {"a.parquet": 5000}


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[GrowingTable]:
    growing = GrowingTable.new(catalog_spec(tmp_path))
    yield growing
    growing.close()


def sweep(table: Table, intended: list[str]) -> set[str]:
    """Two looks far enough apart; what was deleted."""
    folder = TableFolder(table)
    needed = referenced(table, intended)
    first = judge(folder.list(), needed, folder.read_note(orphans.NOTE), 0, POLICY)
    assert first.doomed == ()
    folder.write_note(orphans.NOTE, first.waiting)
    second = judge(folder.list(), needed, folder.read_note(orphans.NOTE), 1000, POLICY)
    assert folder.delete(second.doomed) == len(second.doomed)
    return set(second.doomed)


def test_only_what_nothing_needs_is_deleted(orders):
    for _ in range(4):
        orders.append(0, 1)
    mirror(orders.table, orders.topic_id)
    orders.table.delete(f"{OFFSET} < 3")
    orders.append(0)
    mirror(orders.table, orders.topic_id)
    newest = orders.table.current_snapshot().snapshot_id
    attempt = orders.write(0, 10, [b"never committed"])
    intended = orders.write(0, 10, [b"about to be committed"])
    assert sweep(orders.table, [intended.path]) == {
        attempt.path.removeprefix(orders.layout.location + "/")
    }

    # Without their snapshots the rewritten files are needed by nothing.
    table = orders.table
    now_ms = table.current_snapshot().timestamp_ms
    assert apply(table, changes_of(table, now_ms + 10**12, SnapshotPolicy(newest=1)))
    doomed = sweep(orders.table, [intended.path])
    assert any(path.startswith("_data/") for path in doomed)
    assert any(path.startswith("_iceberg/") for path in doomed)
    assert not any(path.startswith("_delta_log/") for path in doomed)
    assert orders.table.current_snapshot().snapshot_id == newest
    ends = {0: 10, 1: 8}
    expected = [(partition, offset) for partition in ends for offset in range(3, ends[partition])]
    assert in_iceberg(orders.table) == in_delta(orders.log) == expected
    assert sweep(orders.table, [intended.path]) == set()
    orders.append(0)


def test_delta_log_gets_a_checkpoint_when_it_has_grown(orders):
    for _ in range(4):
        orders.append()
        mirror(orders.table, orders.topic_id)
    folder = TableFolder(orders.table)
    assert delta_care.checkpoint_version(folder) == -1
    assert delta_care.care(orders.table, folder, 10) is None
    version = delta_care.care(orders.table, folder, 5)
    assert version == orders.log.version() == delta_care.checkpoint_version(folder)
    log = Path(delta_log.uri(orders.table)) / "_delta_log"
    assert list(log.glob("*.checkpoint.parquet"))
    orders.append()
    mirror(orders.table, orders.topic_id)
    assert in_delta(orders.log) == in_iceberg(orders.table)
    assert delta_care.care(orders.table, folder, 5) is None


def test_old_entries_of_the_delta_log_go_with_a_checkpoint(orders):
    for _ in range(4):
        orders.append()
        mirror(orders.table, orders.topic_id)
    log = Path(delta_log.uri(orders.table)) / "_delta_log"
    old = sorted(log.glob("*.json"))
    for entry in old:
        os.utime(entry, (0, 0))
    delta_care.care(orders.table, TableFolder(orders.table), 1)
    orders.append()
    mirror(orders.table, orders.topic_id)
    delta_care.care(orders.table, TableFolder(orders.table), 1)
    assert not any(entry.exists() for entry in old[:-1])
    assert in_delta(orders.log) == in_iceberg(orders.table)
