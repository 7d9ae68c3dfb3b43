"""`lakestream verify` passes on what is whole, and finds every fault that is planted."""

import json
import re
import shutil
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakestream_spark.metadata.database import Execute, Transaction
from tests.support.verified import Platform, alter_value, rewritten, same_size

IN_TABLE, IN_WAL = 300, 20


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """Offsets 0 to 299 in the table, by two commits, and 300 to 319 in the WAL."""
    platform = Platform(folder=tmp_path_factory.mktemp("lake") / "data")
    platform.send(IN_TABLE - 100)
    platform.commit()
    platform.send(100)
    platform.commit()
    platform.send(IN_WAL)
    shutil.copytree(platform.folder, platform.folder.with_name("backup"))
    return platform


@pytest.fixture
def platform(built: Platform) -> Iterator[Platform]:
    """As it was built, whatever became of it in another test."""
    yield built
    shutil.rmtree(built.folder)
    shutil.copytree(built.folder.with_name("backup"), built.folder)


def test_a_whole_topic_gets_its_certificate(platform: Platform) -> None:
    code, printed = platform.verify("--json")
    assert code == 0, printed
    found = json.loads(printed)
    (part,) = found["partitions"]
    assert found["verified"]
    assert (part["rows"], part["table_end"], part["high_watermark"]) == (
        *(IN_TABLE, IN_TABLE, IN_TABLE + IN_WAL),
    )
    looked = found["looked"]
    assert looked["cells_read"] == looked["cells"] == 1
    assert looked["extents_read"] >= 1
    assert looked["wal_bytes"] > 0
    assert looked["table_bytes"] == sum(path.stat().st_size for path in platform.data_files())
    assert looked["offsets_streamed"] > 0
    code, printed = platform.verify("--partition", "0", "--from", "10", "--to", "20")
    assert (code, f"[0, {IN_TABLE}) has {IN_TABLE} rows" in printed) == (0, True), printed


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--partition", "7"), "the topic has no such partition"),
        (("--from", "10", "--to", "10"), "nothing lies between these offsets"),
        (("--from", "100000"), "the log ends before the first offset asked for"),
    ],
)
def test_what_is_not_there_cannot_be_verified(
    platform: Platform, options: tuple[str, ...], sentence: str
) -> None:
    code, printed = platform.verify(*options)
    assert (code, sentence in printed) == (2, True), printed


def drop_file(platform: Platform) -> str:
    path = platform.data_files()[0]
    path.unlink()
    return rf"a data file of the table is not in the store \(partition=0, .*{path.name}"


def double_file(platform: Platform) -> str:
    path = platform.data_files()[0]
    platform.table().add_files([str(path)], check_duplicate_files=False)
    return "somebody's append is no lawful change of a stream: offset 0 of partition 0"


def swap_offsets(platform: Platform) -> str:
    path = platform.data_files()[0]
    rows = pq.read_table(path)
    offsets = rows["__offset"].to_pylist()
    offsets[3], offsets[4] = offsets[4], offsets[3]
    swapped = pa.array(offsets, pa.int64())
    place = rows.schema.get_field_index("__offset")
    same_size(path, rows.set_column(place, rows.schema.field(place), swapped))
    return "not in offset order, though the table says so \\(partition=0, offset=3,"


def altered_value(platform: Platform) -> str:
    alter_value(platform.data_files()[0])
    return r"rows are not those that were committed: their checksum differs \(partition=0"


def other_size(platform: Platform) -> str:
    path = platform.data_files()[0]
    rewritten(path, pq.read_table(path))
    return f"a data file has {path.stat().st_size} bytes, but the table says"


def drop_delta_commit(platform: Platform) -> str:
    (log,) = platform.folder.rglob("_delta_log")
    sorted(log.glob("*.json"))[-1].unlink()
    return "Delta lacks files that Iceberg has: a commit of its log is missing .*first=_data/0/"


def drop_older_delta_commit(platform: Platform) -> str:
    (log,) = platform.folder.rglob("_delta_log")
    sorted(log.glob("*.json"))[1].unlink()
    return r"the Delta log is damaged: version 1 is missing .*remedy=lakestream maintain --once"


def drop_extent(platform: Platform) -> str:
    def delete() -> Transaction[None]:
        yield Execute("DELETE FROM extents WHERE next_offset > $1", (IN_TABLE,))

    platform.with_metadata(lambda metadata: metadata.database.run(delete()))
    return (
        "acknowledged offsets are neither in the table nor in an extent of the WAL "
        rf"\(partition=0, offsets=\[{IN_TABLE}, {IN_TABLE + IN_WAL}\)"
    )


def drop_segment(platform: Platform) -> str:
    newest = max(platform.folder.rglob("*.seg"))
    newest.unlink()
    return "the index points at a WAL segment that is not in the store \\(partition=0,"


def damage_segment(platform: Platform) -> str:
    newest = max(platform.folder.rglob("*.seg"))
    data = bytearray(newest.read_bytes())
    at = data.rindex(b"v19")
    data[at : at + 3] = b"w19"
    newest.write_bytes(data)
    return "CRC"


def move_table_end(platform: Platform) -> str:
    def move() -> Transaction[None]:
        yield Execute("UPDATE partitions SET table_end = $1", (IN_TABLE - 1,))

    platform.with_metadata(lambda metadata: metadata.database.run(move()))
    return "disagree where the table ends \\(partition=0, table_says=300, metadata_says=299"


@pytest.mark.parametrize(
    "plant",
    [
        drop_file,
        double_file,
        swap_offsets,
        altered_value,
        other_size,
        drop_delta_commit,
        drop_older_delta_commit,
        drop_extent,
        drop_segment,
        damage_segment,
        move_table_end,
    ],
)
def test_a_planted_fault_is_found_with_where_it_is(
    platform: Platform, plant: Callable[[Platform], str]
) -> None:
    sentence = plant(platform)
    code, printed = platform.verify()
    assert code == 5, printed
    assert re.search(sentence, printed), printed
