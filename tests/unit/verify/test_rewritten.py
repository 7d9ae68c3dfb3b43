"""What `lakestream verify` finds in files that a merge made."""

import re
import shutil
from collections.abc import Callable, Iterator

import pyarrow.parquet as pq
import pytest

from lakestream_spark.table.upkeep.policy import MergePolicy, UpkeepPolicy
from tests.support.verified import Platform, alter_value, rewritten

MERGES = UpkeepPolicy(merge=MergePolicy(min_files=2))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """Offsets 0 to 299 in one merged file, by three commits, and ten more in the WAL."""
    platform = Platform(folder=tmp_path_factory.mktemp("lake") / "data")
    for _ in range(3):
        platform.send(100)
        platform.commit()
    for _ in range(2):  # The second takes down what the first did to the rows: nothing.
        platform.maintain(MERGES)
    assert [path.name.startswith("merged-") for path in platform.data_files()] == [True]
    platform.send(10)
    shutil.copytree(platform.folder, platform.folder.with_name("backup"))
    return platform


@pytest.fixture
def platform(built: Platform) -> Iterator[Platform]:
    """As it was built, whatever became of it in another test."""
    yield built
    shutil.rmtree(built.folder)
    shutil.copytree(built.folder.with_name("backup"), built.folder)


def newest(platform: Platform) -> int | None:
    return platform.table().metadata.current_snapshot_id


def drop_file(platform: Platform) -> str:
    (path,) = platform.data_files()
    path.unlink()
    return (
        rf"data loss: a file of the table is not in the store \(file=.*{path.name}, "
        rf"snapshot_id={newest(platform)}\)"
    )


def damage_file(platform: Platform) -> str:
    (path,) = platform.data_files()
    path.write_bytes(b"PAR0" * 100)
    return "a file cannot be read as Parquet"


def alter_a_value(platform: Platform) -> str:
    alter_value(platform.data_files()[0])
    return r"rows are not those that were committed: their checksum differs \(partition=0"


def other_size(platform: Platform) -> str:
    (path,) = platform.data_files()
    rewritten(path, pq.read_table(path))
    return f"a data file has {path.stat().st_size} bytes, but the table says"


def drop_manifest(platform: Platform) -> str:
    table = platform.table()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    table.io.delete(snapshot.manifests(table.io)[0].manifest_path)
    return rf"data loss: a file of the table is not in the store.*snapshot_id={newest(platform)}"


@pytest.mark.parametrize(
    "plant", [drop_file, damage_file, alter_a_value, other_size, drop_manifest]
)
def test_a_fault_that_is_planted_after_a_merge_is_found(
    platform: Platform, plant: Callable[[Platform], str]
) -> None:
    code, printed = platform.verify()
    assert code == 0, printed
    sentence = plant(platform)
    code, printed = platform.verify()
    assert code == 5, printed
    assert re.search(sentence, printed), printed
