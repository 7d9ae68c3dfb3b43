"""Which snapshots stay."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakestream_spark.table.upkeep.policy import SnapshotPolicy
from lakestream_spark.table.upkeep.snapshots import (
    KnownSnapshot,
    SnapshotChanges,
    apply,
    changes_of,
    decide,
)
from tests.support.delta_tables import GrowingTable, in_iceberg
from tests.support.embedded import catalog_spec

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 1_800_000_000_000 // DAY * DAY + 12 * HOUR
POLICY = SnapshotPolicy(newest=3, hours=24, days=30)


def known(number: int, at_ms: int, *, is_ours: bool = True) -> KnownSnapshot:
    return KnownSnapshot(number, number, at_ms, is_ours)


def decided(snapshots: list[KnownSnapshot], **refs: int) -> SnapshotChanges:
    return decide(snapshots, refs, NOW, POLICY)


def test_the_newest_stay_and_older_ones_without_a_tag_expire():
    snapshots = [known(n, NOW - HOUR + n * 1000) for n in range(10)]
    changes = decided(snapshots, main=9)
    # The first of the hour is also the first of the day.
    assert set(changes.tags.values()) == {0}
    assert set(changes.expired) == {1, 2, 3, 4, 5, 6}


def test_each_hour_of_a_day_and_each_day_of_a_month_keeps_its_first_snapshot():
    snapshots = [known(n, NOW - 40 * DAY + n * HOUR // 2) for n in range(40 * 48 + 1)]
    tags: dict[str, int] = {}
    changes = decided(snapshots, main=snapshots[-1].id)
    tags |= changes.tags
    hourly = [name for name in tags if name.startswith("lakestream-hour-")]
    daily = [name for name in tags if name.startswith("lakestream-day-")]
    assert (len(hourly), len(daily)) == (24, 30)
    kept = {s.id for s in snapshots} - set(changes.expired)
    assert kept == set(tags.values()) | {s.id for s in snapshots[-3:]}


def test_tags_that_are_there_stay_where_they_are_and_old_ones_go():
    snapshots = [known(n, NOW - 60_000 + n) for n in range(5)]
    first = decided(snapshots, main=4)
    again = decided(snapshots, main=4, **first.tags)
    assert not again.tags
    assert not again.drops
    later = decide(snapshots, {"main": 4, **first.tags}, NOW + 25 * HOUR, POLICY)
    assert [name.startswith("lakestream-hour-") for name in later.drops] == [True]


def test_foreign_snapshots_get_no_tag_and_foreign_tags_keep_theirs():
    snapshots = [known(n, NOW - DAY * 50 + n, is_ours=n != 1) for n in range(10)]
    changes = decided(snapshots, main=9, audit=1)
    assert changes.tags == {}
    assert set(changes.expired) == {0, 2, 3, 4, 5, 6}


def test_our_newest_snapshot_and_what_others_put_on_it_stay():
    ours = [known(n, NOW - DAY * 50 + n) for n in range(5)]
    foreign = [known(n, NOW - DAY * 50 + n, is_ours=False) for n in range(5, 20)]
    assert set(decided([*ours, *foreign], main=19).expired) == {0, 1, 2, 3}


def test_a_name_that_only_looks_like_ours_is_not_dropped():
    snapshots = [known(0, NOW)]
    changes = decided(snapshots, main=0, **{"lakestream-hour-of-need": 0})
    assert changes.drops == ()


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[GrowingTable]:
    growing = GrowingTable.new(catalog_spec(tmp_path))
    yield growing
    growing.close()


def test_expiry_of_a_real_table_keeps_the_rows_and_our_newest_snapshot(orders):
    for _ in range(6):
        orders.append()
    before = in_iceberg(orders.table)
    table = orders.table
    newest = table.current_snapshot().snapshot_id
    now_ms = table.current_snapshot().timestamp_ms
    changes = changes_of(table, now_ms, POLICY)
    assert apply(table, changes)
    after = orders.table
    assert after.current_snapshot().snapshot_id == newest
    assert {s.snapshot_id for s in after.snapshots()} >= {newest, *changes.tags.values()}
    assert len(after.snapshots()) <= 3 + len(set(changes.tags.values()))
    assert in_iceberg(after) == before
    assert not changes_of(after, now_ms, POLICY)
    assert not any(key.startswith("commit.retry") for key in after.properties)


def test_expiry_decided_before_a_commit_leaves_that_commit_alone(orders):
    for _ in range(6):
        orders.append()
    stale = orders.table
    changes = changes_of(stale, stale.current_snapshot().timestamp_ms, POLICY)
    orders.append()
    newest = orders.table.current_snapshot().snapshot_id
    apply(stale, changes)
    assert orders.table.current_snapshot().snapshot_id == newest
    assert len(in_iceberg(orders.table)) == 14
    orders.append()
