"""What every Iceberg catalog must do for a stream: SQL on SQLite and PostgreSQL, REST, Glue."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from uuid import uuid4

import pytest

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.core.ids import TopicId
from lakestream_spark.table.append import TableState, Verdict
from lakestream_spark.table.iceberg import CatalogSpec, StreamCatalog
from lakestream_spark.table.transactions import commit
from tests.support.embedded import catalog_spec
from tests.support.glue import glue_catalog
from tests.support.postgres import postgres_server, postgres_url
from tests.support.rest_catalog import rest_catalog
from tests.support.stream_tables import StreamTable
from tests.support.tables import TableFiles

__all__ = ["postgres_server", "postgres_url"]

SQLITE, POSTGRES, REST, GLUE = "sqlite", "postgres", "rest", "glue"
KINDS = [
    SQLITE,
    pytest.param(POSTGRES, marks=pytest.mark.postgres),
    pytest.param(REST, marks=[pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]),
    pytest.param(GLUE, marks=pytest.mark.long),
]


@pytest.fixture(scope="module")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogSpec]:
    with rest_catalog(tmp_path_factory.mktemp("rest")) as spec:
        yield spec


@pytest.fixture(params=KINDS)
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CatalogSpec]:
    match request.param:
        case "postgres":
            url = str(request.getfixturevalue("postgres_url")).partition("://")[2]
            properties = {"type": "sql", "uri": f"postgresql+psycopg2://{url}"}
            warehouse = f"file://{tmp_path}/warehouse"
            yield CatalogSpec(name="lake", warehouse=warehouse, properties=properties)
        case "rest":
            yield request.getfixturevalue("rest_server")
        case "glue":
            with glue_catalog(tmp_path) as glue:
                yield glue
        case _:
            yield catalog_spec(tmp_path)


@pytest.fixture
def tables(spec: CatalogSpec) -> Iterator[StreamCatalog]:
    opened = StreamCatalog.open(spec)
    yield opened
    opened.close()


@pytest.fixture
def stream(tmp_path: Path, tables: StreamCatalog) -> StreamTable:
    return StreamTable.new(tmp_path, tables, f"orders_{uuid4().hex[:6]}x")


def test_a_new_catalog_is_opened_by_many_at_once(spec: CatalogSpec) -> None:
    together = Barrier(6)

    def opened(_: int) -> StreamCatalog:
        together.wait(60)
        return StreamCatalog.open(spec)

    with ThreadPoolExecutor(6) as pool:
        for tables in pool.map(opened, range(6)):
            tables.close()


def test_appends_are_seen_by_everybody_who_opens_the_catalog(
    spec: CatalogSpec, stream: StreamTable
) -> None:
    assert stream.tables.load(stream.files.layout) is None
    assert stream.append(3) is Verdict.APPLY
    assert stream.append(2, partition=1) is Verdict.APPLY
    others = StreamCatalog.open(spec)
    seen = StreamTable(tables=others, files=stream.files)
    assert seen.append(1) is Verdict.APPLY
    assert stream.offsets() == [0, 1, 2, 3]
    assert stream.offsets(1) == [0, 1]
    assert TableState.of(stream.load()).ends == {0: 4, 1: 2}
    assert not any(key.startswith("commit.") for key in stream.load().properties)
    others.close()


def test_append_of_another_start_is_stale_and_a_repeated_one_is_done(stream: StreamTable) -> None:
    mine, theirs = (stream.next_append(2) for _ in range(2))
    layout = stream.files.layout
    assert stream.tables.append(layout, theirs) is Verdict.APPLY
    assert stream.tables.append(layout, mine) is Verdict.STALE
    assert stream.tables.append(layout, theirs) is Verdict.ALREADY_DONE
    assert stream.offsets() == [0, 1]


def test_commit_through_a_stale_handle_is_refused(stream: StreamTable) -> None:
    stream.append(1)
    stale = stream.load()
    mine = stream.next_append(1)
    stream.append(1)
    with pytest.raises(Unavailable, match="changed meanwhile"):
        commit(stale, mine, ends=mine.ends)
    assert stream.offsets() == [0, 1]


def test_table_of_a_recreated_topic_is_renamed_and_kept(
    tmp_path: Path, tables: StreamCatalog, stream: StreamTable
) -> None:
    stream.append(2)
    layout = tables.layout(TopicId(uuid4()), stream.files.layout.topic_name)
    new = StreamTable(tables=tables, files=TableFiles(folder=tmp_path, layout=layout))
    new.append(1)
    assert new.offsets() == [0]
    assert stream.offsets() == [0, 1]
    name = f"{layout.topic_name}__{stream.files.layout.topic_id.hex[:8]}"
    assert stream.load().name()[-1] == name


def test_table_is_dropped_with_its_files(stream: StreamTable) -> None:
    stream.append(1)
    for _ in range(2):
        stream.tables.drop(stream.files.layout)
    assert stream.tables.load(stream.files.layout) is None
    assert not Path(stream.files.layout.location.removeprefix("file://")).exists()
