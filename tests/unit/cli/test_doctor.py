import json
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from lakestream_spark.cli.exits import run
from lakestream_spark.cli.group import lakestream
from lakestream_spark.core.ids import TopicId
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.layout import TOPIC_ID_PROPERTY
from tests.support.embedded import catalog_spec
from tests.support.stream_tables import StreamTable
from tests.support.tables import TableFiles
from tests.support.verified import TOPIC, Platform


def findings(
    capsys: pytest.CaptureFixture[str], *words: str, code: int
) -> dict[str, dict[str, object]]:
    assert run(lakestream, ["doctor", "--json", *words]) == code
    return {each["what"]: each for each in json.loads(capsys.readouterr().out)}


def test_what_is_tried_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    data = tmp_path / "data"
    found = findings(capsys, "--data", str(data), code=1)
    for what in ("metadata store", f"WAL in {data.as_uri()}", "catalog lake", "warehouse"):
        assert found[what]["is_well"], found[what]
    left = {path.name for path in data.rglob("*") if path.is_file()}
    assert {name for name in left if not name.startswith("metadata.db")} == {"catalog.db"}
    # Nothing of Spark is there, and each says what to do.
    assert "install it with" in str(found["Java"]["about"])
    assert "python -m lakestream_spark.spark.jars" in str(found["Spark's jars"]["about"])


def test_what_cannot_be_reached_is_named_and_the_rest_is_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    words = ("--data", str(tmp_path), "--set", f"store.url={(tmp_path / 'file').as_uri()}")
    found = findings(capsys, *words, code=1)
    sick = [what for what, each in found.items() if not each["is_well"] and "WAL" in what]
    assert sick == [f"WAL in {(tmp_path / 'file').as_uri()}"]
    assert found["metadata store"]["is_well"]
    assert found["catalog lake"]["is_well"]


def test_people_see_a_line_for_each_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert run(lakestream, ["doctor", "--data", str(tmp_path)]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "sick Java" in shown
    assert "lakestream up" in shown


def test_table_beyond_a_restored_metadata_store_is_sick(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    platform = Platform(folder=tmp_path)
    platform.send(3)
    platform.commit()
    topic_id = TopicId(UUID(platform.table().properties[TOPIC_ID_PROPERTY]))
    with closing(StreamCatalog.open(catalog_spec(tmp_path))) as tables:
        layout = tables.layout(topic_id, TOPIC)
        stream = StreamTable(tables=tables, files=TableFiles(folder=tmp_path, layout=layout))
        assert run(lakestream, ["doctor", "--json", "--data", str(tmp_path)]) in (0, 1)
        (well,) = (e for e in json.loads(capsys.readouterr().out) if e["what"] == "tables")
        assert well["is_well"], well
        stream.append(4)
    sick = findings(capsys, "--data", str(tmp_path), code=1)["tables"]
    assert not sick["is_well"]
    assert "up to offset 7, but the metadata store knows no more than 3" in str(sick["about"])
    assert "newer back-up" in str(sick["advice"])
