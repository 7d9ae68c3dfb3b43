"""A topic with the longest name that Kafka allows goes to a table like any other."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from deltalake import DeltaTable
from pyiceberg.table import Table

from lakestream_spark.cli.asking import table_of
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.embedded import catalog_spec, lake_settings
from tests.support.kafka import consume
from tests.support.reading import Lake, lake_in

LONGEST = 249
BOTH = {"lakestream.table.formats": "iceberg,delta"}


@pytest.fixture
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lake_in(tmp_path_factory.mktemp("long")) as found:
        yield found


def filled(lake: Lake, topic: str, values: list[bytes]) -> Table:
    """The table of a new topic that has these values and is nowhere else."""
    lake.create(topic, config=BOTH)
    lake.send(topic, values)
    lake.commit()
    lake.forget_wal()
    return table_of(lake_settings(lake.folder), topic)[1]


@pytest.mark.parametrize("topic", ["o" * LONGEST, "Orders." * 35 + "2026"])
def test_the_longest_topic_is_a_table_in_both_formats_and_read_back(lake: Lake, topic: str) -> None:
    table = filled(lake, topic, [b"1", b"2"])
    assert table.scan().to_arrow()["__value"].to_pylist() == [b"1", b"2"]
    log = DeltaTable(table.location().removeprefix("file://"))
    assert sorted(log.to_pyarrow_table()["__value"].to_pylist()) == [b"1", b"2"]
    read = consume(lake.bootstrap, topic, offset=0, count=2)
    assert [each.value for each in read] == [b"1", b"2"]


def test_the_longest_topic_made_again_gets_a_new_table_and_the_old_one_is_renamed(
    lake: Lake,
) -> None:
    topic = "o" * LONGEST
    old = filled(lake, topic, [b"1"])
    lake.drop(topic)
    new = filled(lake, topic, [b"2"])
    assert new.name() == old.name()
    assert new.scan().to_arrow()["__value"].to_pylist() == [b"2"]
    with closing(StreamCatalog.open(catalog_spec(lake.folder))) as catalog:
        names = {name for _, name in catalog._catalog.list_tables("streams")}
        aside = f"{old.name()[-1]}__{old.properties['lakestream.topic-id'][:8]}"
        assert names == {new.name()[-1], aside}
        kept = catalog._catalog.load_table(("streams", aside))
        assert kept.scan().to_arrow()["__value"].to_pylist() == [b"1"]
    assert max(map(len, names)) <= 255
