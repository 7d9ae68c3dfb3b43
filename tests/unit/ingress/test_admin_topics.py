"""Topics made, grown, emptied and deleted on the wire."""

from asyncio import to_thread
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from lakestream_spark.app import RunningBroker
from lakestream_spark.ingress.handlers import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
)
from lakestream_spark.ingress.refusal import MAX_NEW_PARTITIONS
from tests.support.asking import TIMEOUT, Asking, ends
from tests.support.kafka import Sent, produce
from tests.support.wire import Wire

NOBODY = UUID(int=7)


# CreateTopics


async def create(
    wire: Wire, *topics: dict[str, Any], version: int = 7, validate_only: bool = False
) -> Any:
    api = Asking(wire, create_topics.API_KEY, version)
    given = []
    for topic in topics:
        configs = topic.get("configs", {})
        entries = configs if isinstance(configs, list) else list(configs.items())
        given.append(
            api.part(
                "CreatableTopic",
                name=topic["name"],
                num_partitions=topic.get("partitions", -1),
                replication_factor=topic.get("replicas", -1),
                assignments=tuple(
                    api.part("CreatableReplicaAssignment", partition_index=index, broker_ids=ids)
                    for index, ids in topic.get("assignments", ())
                ),
                configs=tuple(
                    api.part("CreatableTopicConfig", name=name, value=value)
                    for name, value in entries
                ),
            )
        )
    body = await api.ask(
        "CreateTopicsRequest", topics=tuple(given), validate_only=validate_only, **TIMEOUT
    )
    return body.topics


@ends(create_topics)
async def test_topic_is_made_as_asked_for(lake: RunningBroker, wire: Wire, version: int) -> None:
    asked = {"name": "orders", "partitions": 4, "replicas": 3, "configs": {"retention.ms": "5"}}
    (result,) = await create(wire, asked, version=version)
    assert (result.name, result.error_code, result.error_message) == (
        "orders",
        ErrorCode.none,
        None,
    )
    topic = await lake.metadata.topics.get("orders")
    assert (topic.partitions, topic.replication_factor) == (4, 3)
    assert topic.config == {"retention.ms": "5"}
    if version == 7:
        assert (result.topic_id, result.num_partitions) == (topic.id, 4)
        assert result.replication_factor == 3
        shown = {each.name: (each.value, each.config_source) for each in result.configs}
        assert shown["retention.ms"] == ("5", 1)
        assert shown["lakestream.profile"] == ("cost", 5)


async def test_defaults_and_replicas_assigned_by_hand_give_the_shape(
    lake: RunningBroker, wire: Wire
) -> None:
    by_hand = {"name": "b", "assignments": [(1, (1, 2)), (0, (5, 1)), (2, (9, 8))]}
    results = await create(wire, {"name": "a"}, by_hand)
    shapes = [(each.num_partitions, each.replication_factor) for each in results]
    assert shapes == [(1, 1), (3, 2)]
    assert (await lake.metadata.topics.get("b")).partitions == 3


async def test_validating_makes_nothing_and_gives_no_id(lake: RunningBroker, wire: Wire) -> None:
    good, bad = await create(
        wire, {"name": "a"}, {"name": "b", "partitions": 0}, validate_only=True
    )
    assert (good.error_code, good.num_partitions, good.topic_id) == (ErrorCode.none, 1, None)
    assert bad.error_code is ErrorCode.invalid_partitions
    assert await lake.metadata.topics.list() == []


@pytest.mark.parametrize(
    ("asked", "code", "reason"),
    [
        ({"name": "taken"}, "topic_already_exists", "taken"),
        ({"name": ""}, "invalid_topic_exception", "1 to 249"),
        ({"name": ".."}, "invalid_topic_exception", "not . or .."),
        ({"name": "a b"}, "invalid_topic_exception", "a-z"),
        ({"name": "ä"}, "invalid_topic_exception", "a-z"),
        ({"name": "x" * 250}, "invalid_topic_exception", "249"),
        ({"name": "__consumer_offsets"}, "invalid_topic_exception", "Kafka's own use"),
        ({"name": "a", "partitions": 0}, "invalid_partitions", "cannot have 0"),
        ({"name": "a", "partitions": -2}, "invalid_partitions", "cannot have -2"),
        ({"name": "a", "partitions": MAX_NEW_PARTITIONS + 1}, "policy_violation", "at most 10000"),
        ({"name": "a", "replicas": 0}, "invalid_replication_factor", "cannot be 0"),
        ({"name": "a", "replicas": -2}, "invalid_replication_factor", "cannot be -2"),
        ({"name": "a", "configs": {"foo": "1"}}, "invalid_config", "'foo'"),
        ({"name": "a", "configs": {"retention.ms": "x"}}, "invalid_config", "whole number"),
        ({"name": "a", "configs": {"retention.ms": None}}, "invalid_config", "needs a value"),
        (
            {"name": "a", "configs": [("retention.ms", "1"), ("retention.ms", "2")]},
            "invalid_request",
            "twice: retention.ms",
        ),
        (
            {"name": "a", "configs": {"lakestream.table.name": "taken"}},
            "invalid_config",
            "the table 'streams.taken' is that of the topic 'taken'",
        ),
        ({"name": "a", "partitions": 1, "assignments": [(0, (1,))]}, "invalid_request", "-1"),
        ({"name": "a", "replicas": 1, "assignments": [(0, (1,))]}, "invalid_request", "-1"),
        ({"name": "a", "assignments": [(1, (1,))]}, "invalid_replica_assignment", "0, 1, 2"),
        ({"name": "a", "assignments": [(0, ())]}, "invalid_replica_assignment", "at least one"),
        ({"name": "a", "assignments": [(0, (1, 1))]}, "invalid_replica_assignment", "own broker"),
        (
            {"name": "a", "assignments": [(0, (1,)), (1, (1, 2))]},
            "invalid_replica_assignment",
            "as many replicas",
        ),
    ],
)
async def test_wrong_topic_is_refused_with_the_reason_and_the_next_one_is_made(
    lake: RunningBroker, wire: Wire, asked: dict[str, Any], code: str, reason: str
) -> None:
    await lake.metadata.topics.create("taken")
    refused, made = await create(wire, asked, {"name": "good"})
    assert (refused.error_code, made.error_code) == (ErrorCode[code], ErrorCode.none)
    assert reason in refused.error_message
    assert {topic.name for topic in await lake.metadata.topics.list()} == {"taken", "good"}


async def test_topic_that_is_named_twice_is_not_made(lake: RunningBroker, wire: Wire) -> None:
    results = await create(wire, {"name": "a"}, {"name": "b"}, {"name": "a"})
    codes = [each.error_code for each in results]
    assert codes == [ErrorCode.invalid_request, ErrorCode.none, ErrorCode.invalid_request]
    assert [topic.name for topic in await lake.metadata.topics.list()] == ["b"]


async def test_names_that_kafka_takes_for_colliding_are_two_topics(wire: Wire) -> None:
    results = await create(wire, {"name": "a.b"}, {"name": "a_b"}, {"name": "__mine"})
    assert [each.error_code for each in results] == [ErrorCode.none] * 3


async def test_topic_whose_table_name_was_taken_is_refused(wire: Wire) -> None:
    alias = {"lakestream.table.name": "facts"}
    first, second, third = await create(
        wire,
        {"name": "a", "configs": alias},
        {"name": "b", "configs": alias},
        {"name": "facts"},
    )
    assert first.error_code is ErrorCode.none
    assert second.error_code is third.error_code is ErrorCode.invalid_config
    assert "lakestream.table.name" in third.error_message


# DeleteTopics


async def delete(wire: Wire, *named: str | UUID, version: int = 6) -> Any:
    api = Asking(wire, delete_topics.API_KEY, version)
    states: list[Any] = []
    if version >= 6:
        for each in named:
            name, topic_id = (each, None) if isinstance(each, str) else (None, each)
            states.append(api.part("DeleteTopicState", name=name, topic_id=topic_id))
    body = await api.ask("DeleteTopicsRequest", topics=tuple(states), topic_names=named, **TIMEOUT)
    return body.responses


@ends(delete_topics)
async def test_topic_is_deleted_by_name(lake: RunningBroker, wire: Wire, version: int) -> None:
    topic = await lake.metadata.topics.create("a")
    gone, unknown = await delete(wire, "a", "b", version=version)
    assert (gone.name, gone.error_code) == ("a", ErrorCode.none)
    assert (unknown.name, unknown.error_code) == ("b", ErrorCode.unknown_topic_or_partition)
    if version == 6:
        assert (gone.topic_id, unknown.error_message) == (topic.id, "no such topic (topic=b)")
    assert await lake.metadata.topics.list() == []


async def test_topic_is_deleted_by_id_and_can_be_made_again(
    lake: RunningBroker, wire: Wire
) -> None:
    topic = await lake.metadata.topics.create("a")
    gone, unknown = await delete(wire, topic.id, NOBODY)
    assert (gone.name, gone.topic_id, gone.error_code) == ("a", topic.id, ErrorCode.none)
    assert (unknown.topic_id, unknown.error_code) == (NOBODY, ErrorCode.unknown_topic_id)
    (again,) = await create(wire, {"name": "a"})
    assert again.error_code is ErrorCode.none
    assert again.topic_id != topic.id


async def test_topic_named_twice_or_in_two_ways_is_not_deleted(
    lake: RunningBroker, wire: Wire
) -> None:
    topic = await lake.metadata.topics.create("a")
    results = await delete(wire, "a", "a")
    assert {each.error_code for each in results} == {ErrorCode.invalid_request}
    api = Asking(wire, delete_topics.API_KEY, 6)
    states = (
        api.part("DeleteTopicState", name="a", topic_id=topic.id),
        api.part("DeleteTopicState", name=None, topic_id=None),
    )
    body = await api.ask("DeleteTopicsRequest", topics=states, **TIMEOUT)
    assert {each.error_code for each in body.responses} == {ErrorCode.invalid_request}
    assert len(await lake.metadata.topics.list()) == 1


# CreatePartitions


async def grow(
    wire: Wire,
    *topics: tuple[str, int, tuple[tuple[int, ...], ...] | None],
    version: int = 3,
    validate_only: bool = False,
) -> Any:
    api = Asking(wire, create_partitions.API_KEY, version)
    given = []
    for name, count, brokers in topics:
        lists = None
        if brokers is not None:
            lists = tuple(api.part("CreatePartitionsAssignment", broker_ids=ids) for ids in brokers)
        given.append(api.part("CreatePartitionsTopic", name=name, count=count, assignments=lists))
    body = await api.ask(
        "CreatePartitionsRequest", topics=tuple(given), validate_only=validate_only, **TIMEOUT
    )
    return body.results


@ends(create_partitions)
async def test_partitions_are_added(lake: RunningBroker, wire: Wire, version: int) -> None:
    await lake.metadata.topics.create("a", partitions=2)
    (result,) = await grow(wire, ("a", 5, None), version=version)
    assert (result.name, result.error_code, result.error_message) == ("a", ErrorCode.none, None)
    topic = await lake.metadata.topics.get("a")
    assert topic.partitions == len(await lake.metadata.tables.ends(topic.id)) == 5


async def test_partitions_may_be_assigned_or_only_validated(
    lake: RunningBroker, wire: Wire
) -> None:
    await lake.metadata.topics.create("a")
    (valid,) = await grow(wire, ("a", 2, None), validate_only=True)
    assert (valid.error_code, (await lake.metadata.topics.get("a")).partitions) == (0, 1)
    (done,) = await grow(wire, ("a", 3, ((1,), (2,))))
    assert (done.error_code, (await lake.metadata.topics.get("a")).partitions) == (0, 3)


@pytest.mark.parametrize(
    ("asked", "code", "reason"),
    [
        (("b", 3, None), "unknown_topic_or_partition", "no such topic"),
        (("a", 2, None), "invalid_partitions", "2 would not be more"),
        (("a", 1, None), "invalid_partitions", "the topic has 2 partitions"),
        (("a", -5, None), "invalid_partitions", "would not be more"),
        (("a", 2**31 - 1, None), "policy_violation", "at most 10000"),
        (("a", MAX_NEW_PARTITIONS + 1, None), "invalid_partitions", "10000 partitions, not 10001"),
        (("a", 4, ((1,),)), "invalid_replica_assignment", "2 partitions are new"),
        (("a", 4, ((1,), ())), "invalid_replica_assignment", "at least one"),
    ],
)
async def test_wrong_growth_is_refused_with_the_reason(
    lake: RunningBroker, wire: Wire, asked: Any, code: str, reason: str
) -> None:
    await lake.metadata.topics.create("a", partitions=2)
    (result,) = await grow(wire, asked)
    assert result.error_code is ErrorCode[code]
    assert reason in result.error_message
    assert (await lake.metadata.topics.get("a")).partitions == 2


# DeleteRecords


@ends(delete_records)
async def test_deleting_records_moves_the_log_start(
    lake: RunningBroker, wire: Wire, version: int
) -> None:
    await lake.metadata.topics.create("a")
    await lake.metadata.topics.create("c", config={"cleanup.policy": "compact"})
    await to_thread(produce, lake.bootstrap, "a", [Sent(None, b"v")] * 5)
    api = Asking(wire, delete_records.API_KEY, version)

    async def ask(name: str, index: int, offset: int) -> tuple[int, ErrorCode]:
        partition = api.part("DeleteRecordsPartition", partition_index=index, offset=offset)
        topic = api.part("DeleteRecordsTopic", name=name, partitions=(partition,))
        body = await api.ask("DeleteRecordsRequest", topics=(topic,), **TIMEOUT)
        (result,) = body.topics[0].partitions
        assert result.partition_index == index
        return result.low_watermark, result.error_code

    assert await ask("a", 0, 3) == (3, ErrorCode.none)
    assert await ask("a", 0, 1) == (3, ErrorCode.none)
    assert await ask("a", 0, 6) == (-1, ErrorCode.offset_out_of_range)
    assert await ask("a", 0, -2) == (-1, ErrorCode.offset_out_of_range)
    assert await ask("a", 1, 0) == (-1, ErrorCode.unknown_topic_or_partition)
    assert await ask("b", 0, 0) == (-1, ErrorCode.unknown_topic_or_partition)
    assert await ask("c", 0, 0) == (-1, ErrorCode.policy_violation)
    assert await ask("a", 0, -1) == (5, ErrorCode.none)
    partition = api.part("DeleteRecordsPartition", partition_index=0, offset=0)
    topic = api.part("DeleteRecordsTopic", name="a", partitions=(partition, partition))
    body = await api.ask("DeleteRecordsRequest", topics=(topic,), **TIMEOUT)
    codes = {each.error_code for each in body.topics[0].partitions}
    assert codes == {ErrorCode.invalid_request}
