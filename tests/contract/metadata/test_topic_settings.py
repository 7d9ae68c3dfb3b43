"""Changing a topic's settings, names of tables, and sizes in the WAL."""

import asyncio

import pytest

from lakestream_spark.core.errors import InvalidConfig, InvalidTopic, UnknownTopic
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.metadata.topics import RESERVED, ConfigChange
from tests.support.metadata import header, stored

ALIAS = "lakestream.table.name"


def setting(name: str, value: str) -> ConfigChange:
    """Sets one setting and keeps the others."""
    return lambda config: {**config, name: value}


async def test_changes_through_two_brokers_do_not_undo_each_other(open_again):
    first, second = await open_again(), await open_again()
    topic = await first.topics.create("a")
    names = ["retention.ms", "retention.bytes", "flush.ms", "flush.messages", "segment.ms"]
    await asyncio.gather(
        *(
            metadata.topics.change_config(topic.id, setting(name, str(n)))
            for n, name in enumerate(names, 1)
            for metadata in (first, second)
        )
    )
    config = (await first.topics.get("a")).config
    assert config == {name: str(n) for n, name in enumerate(names, 1)}


async def test_wrong_change_and_mere_validation_change_nothing(metadata, partition):
    topics = metadata.topics
    with pytest.raises(InvalidConfig, match="it takes a whole number"):
        await topics.change_config(partition.topic_id, setting("retention.ms", "soon"))
    good = setting("retention.ms", "5")
    await topics.change_config(partition.topic_id, good, validate_only=True)
    assert (await topics.get("orders")).config == {}
    assert (await topics.change_config(partition.topic_id, good)).config == {"retention.ms": "5"}


async def test_topic_with_a_wrong_setting_is_not_made(metadata):
    with pytest.raises(InvalidConfig, match="there is no topic setting"):
        await metadata.topics.create("a", config={"colour": "red"})
    with pytest.raises(UnknownTopic):
        await metadata.topics.get("a")


@pytest.mark.parametrize("name", ["", "a\0b", "ä", "x" * 250])
async def test_topic_of_an_illegal_name_is_unknown(metadata, name):
    with pytest.raises(UnknownTopic):
        await metadata.topics.get(name)


@pytest.mark.parametrize("name", sorted(RESERVED))
async def test_names_of_kafkas_own_topics_cannot_be_taken(metadata, name):
    with pytest.raises(InvalidTopic, match="Kafka's own use"):
        await metadata.topics.create(name)


async def test_no_two_live_topics_share_a_table(metadata):
    topics = metadata.topics
    first = await topics.create("a", config={ALIAS: "facts"})
    other = await topics.create("b")
    for name, config in (("facts", {}), ("c", {ALIAS: "facts"}), ("c", {ALIAS: "b"})):
        with pytest.raises(InvalidConfig, match="is that of the topic"):
            await topics.create(name, config=config)
    with pytest.raises(InvalidConfig, match=r"the table 'streams\.facts' is that of the topic 'a'"):
        await topics.change_config(other.id, setting(ALIAS, "facts"))
    assert (await topics.create("c", config={ALIAS: "a"})).config == {ALIAS: "a"}
    await topics.delete(first.id)
    assert (await topics.create("facts")).name == "facts"


async def test_tables_of_one_name_in_two_namespaces_are_two(metadata):
    topics = metadata.topics
    await topics.create("orders")
    await topics.create("a", config={ALIAS: "sales.orders"})
    # Their tables are called otherwise: `streams.sales_orders_` and eight digits.
    await topics.create("sales.orders")
    with pytest.raises(InvalidConfig, match=r"'sales\.orders' is that of the topic 'a'"):
        await topics.create("b", config={ALIAS: "sales.orders"})
    with pytest.raises(InvalidConfig, match=r"'streams\.orders' is that of the topic 'orders'"):
        await topics.create("b", config={ALIAS: "streams.orders"})


async def test_table_name_is_taken_by_one_of_two_brokers(open_again):
    brokers = [await open_again() for _ in range(2)]
    done = await asyncio.gather(
        *(
            broker.topics.create(f"t{n}", config={ALIAS: "facts"})
            for n, broker in enumerate(brokers * 3)
        ),
        return_exceptions=True,
    )
    refused = [each for each in done if isinstance(each, InvalidConfig)]
    assert (len(refused), len(await brokers[0].topics.list())) == (5, 1)


async def test_sizes_in_the_wal_are_told_for_every_partition(metadata, writer, partition):
    other = await metadata.topics.create("other")
    topic_id = partition.topic_id
    third = TopicPartition(topic_id, 2)
    for n in (1, 2):
        extents = [(partition, [header(size=100)]), (third, [header(size=70), header(size=80)])]
        await metadata.sequencer.commit(stored(writer, n, *extents))
    sizes = await metadata.topics.wal_bytes([topic_id])
    assert sizes == {partition: 200, TopicPartition(topic_id, 1): 0, third: 300}
    assert await metadata.topics.wal_bytes([other.id]) == {TopicPartition(other.id, 0): 0}
    assert await metadata.topics.wal_bytes([]) == {}
