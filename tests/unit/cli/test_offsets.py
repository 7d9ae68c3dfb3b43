import asyncio
import json
from pathlib import Path

import pytest

from lakestream_spark.cli.exits import run
from lakestream_spark.cli.group import lakestream
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.metadata import open_metadata
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.embedded import catalog_spec, metadata_url
from tests.support.stream_tables import StreamTable
from tests.support.tables import TableFiles


async def created(folder: Path) -> Topic:
    metadata = await open_metadata(metadata_url(folder), clock=SystemClock())
    try:
        return await metadata.topics.create("orders", partitions=2)
    finally:
        await metadata.close()


@pytest.fixture
def snapshots(tmp_path: Path) -> list[int]:
    """Of a topic with two commits: offsets 0 and 1, then 2 to 4."""
    topic = asyncio.run(created(tmp_path))
    tables = StreamCatalog.open(catalog_spec(tmp_path))
    stream = StreamTable(tables=tables, files=TableFiles.of(tmp_path, tables, topic))
    stream.append(2)
    stream.append(3)
    found = [snapshot.snapshot_id for snapshot in stream.load().snapshots()]
    tables.close()
    return found


def asked(folder: Path, *args: str) -> int:
    return run(lakestream, ["offsets", "orders", "--data", str(folder), *args])


def test_snapshot_maps_to_offsets_and_back(
    tmp_path: Path, snapshots: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(tmp_path, "--json", "--snapshot", str(snapshots[0])) == 0
    (answer,) = json.loads(capsys.readouterr().out)["snapshots"]
    assert (answer["snapshot_id"], answer["ends"]) == (snapshots[0], {"0": 2})
    for offset, snapshot in ((1, snapshots[0]), (4, snapshots[1])):
        assert asked(tmp_path, "--json", "--offset", f"0:{offset}") == 0
        (answer,) = json.loads(capsys.readouterr().out)["snapshots"]
        assert answer["snapshot_id"] == snapshot


def test_people_see_every_snapshot_that_is_kept(
    tmp_path: Path, snapshots: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(tmp_path) == 0
    shown = capsys.readouterr().out
    assert all(str(snapshot) in shown for snapshot in snapshots)
    assert "0: 5" in shown


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--offset", "0:99"), "no snapshot reaches this offset yet"),
        (("--offset", "1:0"), "no snapshot reaches this offset yet"),
        (("--offset", "nine"), "'nine' is not PARTITION:OFFSET"),
        (("--snapshot", "12345"), "keeps no such snapshot"),
        (("--snapshot", "1", "--offset", "0:0"), "not both"),
    ],
)
def test_wrong_questions_are_answered_in_one_sentence(
    tmp_path: Path,
    snapshots: list[int],
    capsys: pytest.CaptureFixture[str],
    args: tuple[str, ...],
    sentence: str,
) -> None:
    assert asked(tmp_path, *args) == 2
    assert sentence in capsys.readouterr().err
