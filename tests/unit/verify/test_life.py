"""Merges, rewrites, erasures, expiry and retention keep a topic whole, and every hole is told."""

import asyncio
import io
import json
import signal
import subprocess
import sys
from contextlib import closing, redirect_stdout
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.table.update.snapshot import ExpireSnapshots

from lakestream_spark.cli.exits import run
from lakestream_spark.cli.status import status
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.cells import Ledger
from lakestream_spark.metadata.database import Execute, Transaction
from lakestream_spark.table.append import TableState
from lakestream_spark.table.delta_changes import files_of
from lakestream_spark.table.delta_log import open_log
from lakestream_spark.table.erasures import new_changes
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.steps import Step
from lakestream_spark.table.upkeep.policy import (
    MergePolicy,
    OrphanPolicy,
    SnapshotPolicy,
    UpkeepPolicy,
)
from lakestream_spark.verify.mirror import check_mirror
from lakestream_spark.verify.pinned import Asked, Pinned, Site, pin
from tests.support.delete_files import delete_positions
from tests.support.embedded import catalog_spec
from tests.support.local_rewriter import replace_files
from tests.support.rewriting import data_files, rewrite
from tests.support.verified import BOTH, TOPIC, Platform

HASTY = UpkeepPolicy(
    merge=MergePolicy(min_files=2),
    snapshots=SnapshotPolicy(newest=1, hours=0, days=0),
    orphans=OrphanPolicy(grace_ms=0, metadata_grace_ms=0),
    seldom_ms=0,
)

NO_MERGES = MergePolicy(target_bytes=1)


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    """Offsets 0 to 199 by two commits, all in the table."""
    found = Platform(folder=tmp_path)
    for _ in range(2):
        found.send(100)
        found.commit()
    return found


def topic_id(platform: Platform) -> TopicId:
    return TableState.of(platform.table()).topic_id


def whole(platform: Platform) -> str:
    code, printed = platform.verify()
    assert code == 0, printed
    return printed


def test_a_topic_stays_whole_through_its_life(platform: Platform) -> None:
    platform.table().delete("__offset >= 10 AND __offset < 20")
    erasing = platform.table().current_snapshot()
    assert erasing is not None
    explained = f"snapshot {erasing.snapshot_id} at"
    assert explained in whole(platform), "from the snapshot itself"

    for _ in range(3):
        platform.maintain(HASTY)
        platform.send(10)
        platform.commit()
    table = platform.table()
    assert table.snapshot_by_id(erasing.snapshot_id) is None, "expired"
    printed = whole(platform)
    assert explained in printed, "from what was written down before"
    assert "[0, 230) has 220 rows" in printed
    assert "10 offsets erased by" in printed

    short = {**BOTH, "lakestream.table.retention.ms": "3600000"}
    platform.with_metadata(lambda metadata: metadata.topics.alter_config(topic_id(platform), short))
    platform.maintain(HASTY)
    printed = whole(platform)
    assert "[0, 230) has 0 rows, checksum 0000000000000000" in printed
    assert "erased by lakestream (retention)" in printed
    platform.maintain(HASTY)
    platform.send(5)
    platform.commit()
    assert "[0, 235) has 5 rows" in whole(platform)


def test_rows_deleted_by_position_are_told_and_their_files_stay_until_delta_follows(
    platform: Platform,
) -> None:
    table = platform.table()
    path = min(task.file.file_path for task in table.scan().plan_files())
    delete_positions(table, path, [3, 4, 50])
    printed = whole(platform)
    assert "has 197 rows" in printed
    assert "3 offsets erased by an engine without a name (delete)" in printed
    assert "of others is to be mirrored" in printed
    for _ in range(3):
        # Nobody here can rewrite the file, so Delta cannot follow.
        (report,) = platform.maintain(replace(HASTY, merge=NO_MERGES)).values()
        assert "mirror" in report.failed
    log = open_log(platform.table())
    assert log is not None
    root = Path(platform.table().location().removeprefix("file://"))
    assert all((root / each).exists() for each in files_of(log))
    assert "has 197 rows" in whole(platform)


def test_an_update_that_keeps_offsets_is_lawful(platform: Platform) -> None:
    table = platform.table()
    rows = table.scan("__offset = 7").to_arrow()
    place = rows.schema.get_field_index("__value")
    rows = rows.set_column(place, rows.schema.field(place), [[b"other"]])
    table.overwrite(rows, "__offset = 7")
    assert "[0, 200) has 200 rows" in whole(platform)
    platform.maintain(HASTY)
    assert "[0, 200) has 200 rows" in whole(platform)


def test_a_change_that_was_taken_down_and_then_rolled_back_explains_nothing_any_more(
    platform: Platform,
) -> None:
    own = platform.table().current_snapshot()
    assert own is not None
    platform.table().delete("__offset = 7")
    platform.maintain(replace(HASTY, merge=NO_MERGES, snapshots=SnapshotPolicy()))
    assert "[0, 200) has 199 rows" in whole(platform)

    platform.table().manage_snapshots().rollback_to_snapshot(own.snapshot_id).commit()
    assert "[0, 200) has 200 rows" in whole(platform), "while the snapshot is there"
    for _ in range(3):
        platform.maintain(HASTY)
        platform.send(10)
        platform.commit()
    assert "[0, 230) has 230 rows" in whole(platform), "and when it has expired"


def test_a_change_of_rows_that_the_ledger_has_not_yet_keeps_its_snapshots(
    platform: Platform,
) -> None:
    platform.table().delete("__offset = 5")
    table = platform.table()
    nothing = Ledger({0: 0}, [], [])
    found = new_changes(table, nothing, in_flight=True)
    assert found.changes == ()
    assert found.keep_from is not None
    known = platform.with_metadata(lambda metadata: metadata.cells.ledger(topic_id(platform)))
    later = new_changes(table, known, in_flight=True)
    assert [each.cells[0].gone for each in later.changes if each.cells] == [((5, 6),)]
    assert later.keep_from is None


def test_a_mirror_that_went_on_is_compared_at_the_version_of_the_snapshot(
    platform: Platform,
) -> None:
    spec = catalog_spec(platform.folder)

    async def pinned_now(metadata: Metadata) -> Pinned:
        with closing(StreamCatalog.open(spec)) as catalog:
            site = Site(
                metadata=metadata,
                catalog=catalog,
                spec=spec,
                stores={},
                clock=SystemClock(),
                random=Random(),
            )
            return await pin(site, await metadata.topics.get(TOPIC), Asked())

    before = platform.with_metadata(pinned_now)
    platform.send(10)
    platform.commit()
    found = asyncio.run(check_mirror(before, SystemClock()))
    log = open_log(platform.table())
    assert found is not None
    assert log is not None
    assert (found.version, found.late) == (log.version() - 1, None)


def test_what_was_committed_before_sums_were_kept_is_said_to_be_unknown(
    platform: Platform,
) -> None:
    def forget() -> Transaction[None]:
        yield Execute("DELETE FROM cells")

    platform.with_metadata(lambda metadata: metadata.database.run(forget()))
    assert "200 offsets were committed before checksums were kept" in whole(platform)
    platform.send(10)
    platform.commit()
    platform.table().delete("__offset < 20 OR __offset = 205")
    for _ in range(2):
        printed = whole(platform)
        assert "200 offsets were committed before checksums were kept" in printed
        assert "[0, 210) has 9 rows" in printed
        platform.maintain(HASTY)


def test_a_commit_that_waits_to_be_finished_is_no_damage(platform: Platform) -> None:
    platform.send(10)
    killed = subprocess.run(
        [
            *(sys.executable, "-m", "tests.support.sparkless", str(platform.folder)),
            *("--die-at", Step.TABLE_APPENDED.name),
        ],
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    code, printed = platform.verify()
    assert (code, "a commit of the topic waits to be finished" in printed) == (3, True), printed
    platform.commit()
    assert "[0, 210) has 210 rows" in whole(platform)


def test_a_rewrite_stays_whole_when_others_expire_the_commit_below_it(platform: Platform) -> None:
    first, ours = (each.snapshot_id for each in platform.table().snapshots())
    platform.table().manage_snapshots().create_tag(first, "first").commit()
    table = platform.table()
    rewrite(table, [table.scan().to_arrow().sort_by("__offset")], row_group_rows=50)
    with platform.table().transaction() as transaction:
        ExpireSnapshots(transaction).by_id(ours).commit()
    assert "[0, 200) has 200 rows" in whole(platform)
    platform.send(10)
    platform.commit()
    assert "[0, 210) has 210 rows" in whole(platform)


def leave_one_file_without_statistics(platform: Platform) -> Path:
    """Another engine drops the partitioning and writes all rows anew; the file tells no bounds."""
    with platform.table().update_spec() as update:
        update.remove_field("__partition")
    table = platform.table()
    rows = table.scan().to_arrow().sort_by("__offset")
    path = Path(table.properties["write.data.path"].removeprefix("file://")) / "plain.parquet"
    pq.write_table(rows, path, store_schema=False, write_statistics=False)
    new = parquet_file_to_data_file(table.io, table.metadata, str(path))
    assert not new.lower_bounds
    assert replace_files(table, data_files(table), [new])
    return path


def test_a_table_that_is_not_partitioned_any_more_and_tells_no_bounds_stays_whole(
    platform: Platform,
) -> None:
    path = leave_one_file_without_statistics(platform)
    printed = whole(platform)
    assert "[0, 200) has 200 rows" in printed
    assert "1 files with" in printed
    assert "it cannot be mirrored: a data file may hold rows of several partitions" in printed
    path.unlink()
    code, printed = platform.verify()
    assert (code, "plain.parquet" in printed) == (5, True), printed


def test_one_odd_table_keeps_no_topic_from_the_status(platform: Platform) -> None:
    leave_one_file_without_statistics(platform)
    printed = io.StringIO()
    with redirect_stdout(printed):
        code = run(status, ["--data", str(platform.folder), "--json"])
    (found,) = json.loads(printed.getvalue())["topics"]
    assert (code, found["table"]["files"], found["table_end"]) == (0, 1, 200)
