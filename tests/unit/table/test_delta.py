"""The Delta mirror beside pyiceberg and delta-rs; Spark's side is in the integration tests."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree
from threading import Barrier

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.transaction import AddAction
from pyiceberg.types import StringType

from lakestream_spark.core.errors import Corrupt, Rejected, Unavailable
from lakestream_spark.table import delta_changes, delta_log
from lakestream_spark.table.columns import ICEBERG_SCHEMA, OFFSET, PARTITION
from lakestream_spark.table.delta import MirrorResult, Outcome, mirror
from tests.support.delta_tables import GrowingTable, in_delta, in_duckdb, in_iceberg
from tests.support.embedded import catalog_spec


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[GrowingTable]:
    growing = GrowingTable.new(catalog_spec(tmp_path))
    yield growing
    growing.close()


def mirrored(orders: GrowingTable) -> MirrorResult:
    """Mirror, and check that both formats hold the same rows, by two readers of Delta."""
    result = mirror(orders.table, orders.topic_id)
    assert in_delta(orders.log) == in_iceberg(orders.table) == in_duckdb(orders.log)
    return result


def log_folder(orders: GrowingTable) -> Path:
    return Path(delta_log.uri(orders.table)) / "_delta_log"


def last_commit(orders: GrowingTable) -> list[dict[str, dict[str, object]]]:
    newest = max(log_folder(orders).glob("*.json"))
    return [json.loads(line) for line in newest.read_text().splitlines()]


def adds(orders: GrowingTable) -> list[dict[str, object]]:
    return [action["add"] for action in last_commit(orders) if "add" in action]


def removes(orders: GrowingTable) -> list[dict[str, object]]:
    return [action["remove"] for action in last_commit(orders) if "remove" in action]


def foreign_add(orders: GrowingTable) -> None:
    """Somebody else's commit to the Delta table: a file that Iceberg does not have."""
    stray = orders.write(0, 1000, [b"stray"])
    path = stray.path.removeprefix(orders.layout.location + "/")
    action = AddAction(path, stray.size, {PARTITION: "0"}, 1, True, '{"numRecords":1}')
    log = orders.log
    log.create_write_transaction([action], "append", log.schema(), [PARTITION])


def test_table_without_a_snapshot_gets_no_delta_log(orders):
    assert mirror(orders.table, orders.topic_id).outcome is Outcome.UP_TO_DATE
    assert not log_folder(orders).exists()


def test_first_mirror_has_the_columns_comments_and_properties_of_the_table(orders):
    orders.append(0, 1)
    assert mirrored(orders).outcome is Outcome.MIRRORED
    log = orders.log
    schema = json.loads(log.schema().to_json())["fields"]
    assert [(field["name"], not field["nullable"]) for field in schema] == [
        (field.name, field.required) for field in ICEBERG_SCHEMA.fields
    ]
    assert [field["metadata"]["comment"] for field in schema] == [
        field.doc for field in ICEBERG_SCHEMA.fields
    ]
    headers = schema[5]["type"]
    assert headers["containsNull"]
    assert [
        (f["name"], f["nullable"], f["metadata"]) for f in headers["elementType"]["fields"]
    ] == [
        ("key", True, {"comment": "The header's name."}),
        ("value", True, {"comment": "The header's value, or null."}),
    ]
    assert log.metadata().partition_columns == [PARTITION]
    assert delta_log.CONFIGURATION.items() <= log.metadata().configuration.items()


def test_paths_are_relative_and_statistics_let_readers_skip(orders):
    file, *_ = orders.append(0, values=[b"a", b"b", b"c"])
    mirrored(orders)
    (add,) = adds(orders)
    assert add["path"] == file.path.removeprefix(orders.layout.location + "/")
    assert str(add["path"]).startswith("_data/")
    assert json.loads(str(add["stats"])) == {
        "numRecords": 3,
        "minValues": {OFFSET: 0, "__timestamp": "1970-01-01T00:00:00.000Z"},
        "maxValues": {OFFSET: 2, "__timestamp": "1970-01-01T00:00:00.002Z"},
        "nullCount": {OFFSET: 0, "__timestamp": 0},
    }


def test_append_is_mirrored_by_its_own_manifests_alone(orders, monkeypatch):
    orders.append(0, 1)
    mirrored(orders)
    orders.append(0)
    orders.append(1)
    monkeypatch.delattr(delta_changes, "between")
    result = mirrored(orders)
    assert (result.adds, result.removes, result.full) == (2, 0, False)
    assert all(add["dataChange"] for add in adds(orders))
    sequence_number = orders.table.current_snapshot().sequence_number
    assert orders.log.transaction_version(str(orders.topic_id)) == sequence_number


def test_mirror_of_what_is_mirrored_commits_nothing(orders):
    orders.append()
    mirrored(orders)
    version = orders.log.version()
    assert mirrored(orders).outcome is Outcome.UP_TO_DATE
    assert orders.log.version() == version


def test_older_view_of_the_table_leaves_a_newer_delta_alone(orders):
    orders.append()
    older = orders.table
    orders.append()
    mirrored(orders)
    foreign_add(orders)
    version = orders.log.version()
    assert mirror(older, orders.topic_id).outcome is Outcome.UP_TO_DATE
    assert orders.log.version() == version


def test_rows_that_were_rolled_back_leave_delta_at_once(orders):
    orders.append()
    mirrored(orders)
    ours = orders.table.current_snapshot().snapshot_id
    orders.table.append(orders.table.scan().to_arrow())
    mirrored(orders)
    orders.table.manage_snapshots().rollback_to_snapshot(ours).commit()
    assert mirrored(orders).full
    assert mirrored(orders).outcome is Outcome.UP_TO_DATE
    orders.append()
    assert not mirrored(orders).full


def test_deleted_rows_leave_both_formats_and_no_reader_sees_the_rest_again(orders):
    orders.append(values=[b"a", b"b", b"c"])
    orders.append()
    mirrored(orders)
    # One file is rewritten without its middle row, the other goes as a whole.
    orders.table.delete(f"{OFFSET} = 1 or {OFFSET} >= 3")
    result = mirrored(orders)
    assert in_delta(orders.log) == [(0, 0), (0, 2)]
    assert (result.adds, result.removes, result.full) == (1, 2, False)
    assert [add["dataChange"] for add in adds(orders)] == [False]
    assert {remove["dataChange"] for remove in removes(orders)} == {False}


def test_rows_rewritten_before_delta_saw_them_count_as_new(orders):
    orders.append(values=[b"a", b"b"])
    mirrored(orders)
    orders.append(values=[b"c", b"d"])
    orders.table.delete(f"{OFFSET} = 2")
    result = mirrored(orders)
    assert (result.adds, result.removes) == (1, 0)
    assert [add["dataChange"] for add in adds(orders)] == [True]


def test_full_comparison_when_a_snapshot_between_has_expired(orders):
    orders.append()
    mirrored(orders)
    orders.append()
    middle = orders.table.current_snapshot().snapshot_id
    orders.append()
    orders.table.maintenance.expire_snapshots().by_id(middle).commit()
    result = mirrored(orders)
    assert (result.adds, result.full) == (2, True)


def test_log_that_was_lost_is_made_anew(orders):
    orders.append(0, 1)
    orders.append(0)
    mirrored(orders)
    rmtree(log_folder(orders))
    assert mirrored(orders).adds == 3


def commit_file(orders: GrowingTable, version: int) -> Path:
    return log_folder(orders) / f"{version:020d}.json"


def lose_a_version(orders: GrowingTable) -> str:
    commit_file(orders, 2).unlink()
    return "version 2 is missing"


def lose_the_first_version(orders: GrowingTable) -> str:
    commit_file(orders, 0).unlink()
    return "version 0 is missing"


def tear_a_version(orders: GrowingTable) -> str:
    commit_file(orders, 2).write_text('{"add": {"pa')
    return "version 2 is damaged"


def lose_the_checkpoint(orders: GrowingTable) -> str:
    orders.log.create_checkpoint()
    for path in log_folder(orders).glob("*.checkpoint.parquet"):
        path.unlink()
    return "its checkpoint is missing"


@pytest.mark.parametrize(
    "damage", [lose_a_version, lose_the_first_version, tear_a_version, lose_the_checkpoint]
)
def test_log_that_is_damaged_is_told_in_a_sentence_and_made_anew(orders, damage):
    for _ in range(3):
        orders.append(0)
        mirrored(orders)
    sentence = damage(orders)
    with pytest.raises(Corrupt, match=sentence) as told:
        delta_log.open_log(orders.table)
    assert len(str(told.value)) < 400
    assert mirrored(orders).adds == 3
    aside = log_folder(orders).with_name("_delta_log_damaged")
    assert list(aside.glob("*/*.json")), "kept"


def test_log_that_cannot_be_read_for_now_is_left_alone(orders, monkeypatch):
    orders.append(0)
    mirrored(orders)
    before = sorted(log_folder(orders).iterdir())

    def silent(*_: object, **__: object) -> DeltaTable:
        raise OSError("no answer\nand a trace")

    monkeypatch.setattr(delta_log, "DeltaTable", silent)
    with pytest.raises(Unavailable, match=r"the Delta log cannot be read: no answer \("):
        mirror(orders.table, orders.topic_id)
    assert sorted(log_folder(orders).iterdir()) == before


def test_files_that_somebody_else_put_into_delta_are_taken_out(orders):
    orders.append()
    mirrored(orders)
    foreign_add(orders)
    assert in_delta(orders.log) != in_iceberg(orders.table)
    result = mirrored(orders)
    assert (result.adds, result.removes, result.full) == (0, 1, True)
    assert mirrored(orders).outcome is Outcome.UP_TO_DATE


def test_foreign_commit_and_new_append_are_settled_together(orders):
    orders.append()
    mirrored(orders)
    foreign_add(orders)
    orders.append()
    assert mirrored(orders).full
    assert [add["dataChange"] for add in adds(orders)] == [True]


def test_protection_that_somebody_took_away_is_given_back(orders):
    orders.append()
    mirrored(orders)
    changes = {"delta.appendOnly": "false", "delta.logRetentionDuration": "interval 9 days"}
    orders.log.alter.set_table_properties(changes)
    assert mirrored(orders).full
    configuration = orders.log.metadata().configuration
    assert configuration["delta.appendOnly"] == "true"
    assert configuration["delta.logRetentionDuration"] == "interval 9 days"
    assert mirrored(orders).outcome is Outcome.UP_TO_DATE


def test_another_delta_table_over_this_one_is_refused_with_the_remedy(orders, tmp_path):
    orders.append()
    write_deltalake(delta_log.uri(orders.table), pa.table({"x": [1]}))
    with pytest.raises(Rejected, match="_delta_log"):
        mirror(orders.table, orders.topic_id)


def test_new_columns_of_the_table_are_added(orders):
    orders.append()
    mirrored(orders)
    with orders.table.update_schema() as update:
        update.add_column("city", StringType(), doc="Where.")
    orders.append()
    mirrored(orders)
    field: Field = orders.log.schema().fields[-1]
    assert (field.name, field.metadata) == ("city", {"comment": "Where."})


def test_racing_mirrors_leave_each_file_once(orders):
    orders.append(0, 1)
    start = Barrier(4)

    def race(_: int) -> MirrorResult:
        table = orders.table
        start.wait(30)
        return mirror(table, orders.topic_id)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            outcomes = [result.outcome for result in pool.map(race, range(4))]
            assert outcomes.count(Outcome.MIRRORED) == 1
            assert outcomes.count(Outcome.UP_TO_DATE) == 3
            assert in_delta(orders.log) == in_iceberg(orders.table)
            orders.append(0)


def test_vacuum_of_delta_rs_takes_nothing(orders):
    orders.append(0, 1)
    mirrored(orders)
    before = orders.table.current_snapshot().snapshot_id
    rows_before = in_iceberg(orders.table)
    orders.table.delete(f"{PARTITION} = 1")
    mirrored(orders)
    for full in (False, True):
        orders.log.vacuum(
            retention_hours=0, dry_run=False, enforce_retention_duration=False, full=full
        )
    assert in_delta(orders.log) == in_iceberg(orders.table)
    scan = orders.table.scan(snapshot_id=before).to_arrow()
    assert scan.num_rows == len(rows_before)
    mirrored(orders)


def test_no_vacuum_by_the_log_may_ever_take_a_removed_file(orders):
    orders.append(0, 1)
    mirrored(orders)
    orders.table.delete(f"{PARTITION} = 1")
    mirrored(orders)
    (removed,) = removes(orders)
    assert int(str(removed["deletionTimestamp"])) > 200_000_000_000_000


def test_delta_versions_of_a_mirrored_snapshot_stay_readable(orders):
    orders.append()
    mirrored(orders)
    version = orders.log.version()
    orders.append()
    mirrored(orders)
    older = DeltaTable(delta_log.uri(orders.table), version=version)
    assert in_delta(older) == [(0, 0), (0, 1)]
