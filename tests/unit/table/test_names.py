"""Which table is a topic's: by its id, under the name that its settings give it."""

from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from lakestream_spark.core.errors import RedTable
from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata import Metadata
from lakestream_spark.table.append import Verdict
from lakestream_spark.table.columns import ICEBERG_SCHEMA
from lakestream_spark.table.drop import drop_table_of, settle_deleted
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.layout import TOPIC_ID_PROPERTY, TableLayout
from tests.support.embedded import catalog_spec
from tests.support.stream_tables import StreamTable
from tests.support.tables import TableFiles


def of_topic(folder: Path, tables: StreamCatalog, topic_id: TopicId, **config: str) -> StreamTable:
    settings = {f"lakestream.{key.replace('_', '.')}": value for key, value in config.items()}
    layout = tables.layout(topic_id, "orders", settings)
    return StreamTable(tables=tables, files=TableFiles(folder=folder, layout=layout))


def names(tables: StreamCatalog) -> set[str]:
    return {identifier[-1] for identifier in tables._catalog.list_tables("streams")}


@pytest.fixture
def topic_id() -> TopicId:
    return TopicId(uuid4())


def test_recreated_topic_sets_the_old_table_aside_and_starts_anew(
    tmp_path: Path, tables: StreamCatalog, topic_id: TopicId
) -> None:
    old = of_topic(tmp_path, tables, TopicId(uuid4()))
    old.append(3)
    new = of_topic(tmp_path, tables, topic_id)
    assert tables.load(new.files.layout) is None
    new.append(1)
    assert new.offsets() == [0]
    aside = f"orders__{old.files.layout.topic_id.hex[:8]}"
    assert names(tables) == {"orders", aside}
    assert old.offsets() == [0, 1, 2]
    assert old.load().name() == ("streams", aside)


def test_table_follows_the_name_in_its_topics_settings_at_the_next_commit(
    tmp_path: Path, tables: StreamCatalog, topic_id: TopicId
) -> None:
    of_topic(tmp_path, tables, topic_id).append(2)
    renamed = of_topic(tmp_path, tables, topic_id, table_name="sales")
    assert renamed.offsets() == [0, 1]
    assert names(tables) == {"orders"}
    renamed.append(1)
    assert names(tables) == {"sales"}
    assert renamed.offsets() == [0, 1, 2]
    by_another_reader = of_topic(tmp_path, tables, topic_id)
    assert by_another_reader.offsets() == [0, 1, 2]


def test_table_moves_to_the_namespace_in_its_topics_settings_and_back(
    tmp_path: Path, tables: StreamCatalog, topic_id: TopicId
) -> None:
    of_topic(tmp_path, tables, topic_id).append(1)
    sales = of_topic(tmp_path, tables, topic_id, table_name="sales.facts")
    assert sales.offsets() == [0]
    sales.append(1)
    assert sales.load().name() == ("sales", "facts")
    assert names(tables) == set()
    # Somebody who read the settings before finds it too, and so does the next name.
    assert of_topic(tmp_path, tables, topic_id).offsets() == [0, 1]
    with closing(StreamCatalog.open(catalog_spec(tmp_path))) as others:
        elsewhere = of_topic(tmp_path, others, topic_id, table_name="eu.facts")
        assert elsewhere.offsets() == [0, 1]
        elsewhere.append(1)
        assert elsewhere.load().name() == ("eu", "facts")
    back = of_topic(tmp_path, tables, topic_id)
    back.append(1)
    assert names(tables) == {"orders"}
    assert back.offsets() == [0, 1, 2, 3]


def test_first_commit_makes_a_namespace_that_is_missing(
    tmp_path: Path, tables: StreamCatalog, topic_id: TopicId
) -> None:
    stream = of_topic(tmp_path, tables, topic_id, table_name="sales.orders")
    assert tables.load(stream.files.layout) is None
    stream.append(2)
    assert tables._catalog.list_namespaces() == [("sales",)]
    assert stream.offsets() == [0, 1]
    assert tables._catalog.load_table("sales.orders").location() == stream.files.layout.location


def test_two_topics_that_swap_names_keep_their_tables(
    tmp_path: Path, tables: StreamCatalog, topic_id: TopicId
) -> None:
    other_id = TopicId(uuid4())
    of_topic(tmp_path, tables, topic_id, table_name="one").append(1)
    of_topic(tmp_path, tables, other_id, table_name="two").append(2)
    mine = of_topic(tmp_path, tables, topic_id, table_name="two")
    theirs = of_topic(tmp_path, tables, other_id, table_name="one")
    mine.append(1)
    theirs.append(1)
    assert mine.offsets() == [0, 1]
    assert theirs.offsets() == [0, 1, 2]
    assert names(tables) == {"one", "two"}


def test_settings_of_the_topic_reach_the_table_with_the_next_append(
    tmp_path: Path, tables: StreamCatalog, topic_id: TopicId
) -> None:
    of_topic(tmp_path, tables, topic_id, table_lag_ms="5000").append(1)
    stream = of_topic(tmp_path, tables, topic_id, profile="latency", owner="the shop")
    before = stream.load()
    assert before.properties["lakestream.lag-ms"] == "5000"
    assert before.properties["lakestream.profile"] == "cost"
    assert before.properties["owner"] == "lakestream"
    stream.append(1)
    after = stream.load().properties
    assert after["lakestream.lag-ms"] == "60000"
    assert after["lakestream.profile"] == "latency"
    assert after["owner"] == "the shop"
    assert after[TOPIC_ID_PROPERTY] == str(topic_id)


@pytest.mark.parametrize(
    ("namespace", "config"), [("streams", {}), ("sales", {"table_name": "sales.orders"})]
)
def test_table_of_nobody_under_our_name_is_left_alone(
    tmp_path: Path,
    tables: StreamCatalog,
    topic_id: TopicId,
    namespace: str,
    config: dict[str, str],
) -> None:
    tables._catalog.create_namespace(namespace)
    tables._catalog.create_table(f"{namespace}.orders", schema=ICEBERG_SCHEMA)
    with pytest.raises(RedTable, match="not a stream's") as red:
        of_topic(tmp_path, tables, topic_id, **config).append(1)
    remedy = str(red.value.facts["remedy"])
    assert f"lake.{namespace}.orders RENAME TO lake.{namespace}." in remedy
    tables._catalog.rename_table(f"{namespace}.orders", f"{namespace}.theirs")
    assert of_topic(tmp_path, tables, topic_id, **config).append(1) is Verdict.APPLY


def test_dropped_table_is_red_until_it_is_registered_again(
    tmp_path: Path, tables: StreamCatalog, topic_id: TopicId
) -> None:
    stream = of_topic(tmp_path, tables, topic_id)
    stream.append(2)
    append = stream.next_append(1)
    tables._catalog.drop_table("streams.orders")
    with pytest.raises(RedTable, match="dropped the table") as red:
        tables.append(stream.files.layout, append)
    file = str(red.value.facts["remedy"]).rpartition("', '")[2].removesuffix("')")
    tables._catalog.register_table("streams.orders", file)
    assert tables.append(stream.files.layout, append) is Verdict.APPLY
    assert stream.offsets() == [0, 1, 2]


@pytest.mark.parametrize(("on_delete", "stays"), [("keep", True), ("drop", False)])
async def test_table_of_a_deleted_topic_goes_only_when_its_settings_say_so(
    tmp_path: Path, metadata: Metadata, tables: StreamCatalog, on_delete: str, stays: bool
) -> None:
    config = {"lakestream.table.on.delete": on_delete}
    topic = await metadata.topics.create("orders", config=config)
    stream = of_topic(tmp_path, tables, topic.id)
    other = StreamTable.new(tmp_path, tables, "bystander")
    for each in (stream, other):
        each.append(1)
    await metadata.topics.delete(topic.id)
    drop_table_of(tables, topic)
    assert await settle_deleted(metadata.topics, tables) == stays
    assert (tables.load(stream.files.layout) is not None) is stays
    folder = Path(stream.files.layout.location.removeprefix("file://"))
    assert folder.exists() is stays
    assert other.offsets() == [0]


def test_location_does_not_depend_on_the_tables_name(topic_id: TopicId) -> None:
    one, other = (
        TableLayout(warehouse="file:///w", topic_id=topic_id, topic_name="orders", config=config)
        for config in ({}, {"lakestream.table.name": "sales"})
    )
    assert one.identifier != other.identifier
    assert one.location == other.location
