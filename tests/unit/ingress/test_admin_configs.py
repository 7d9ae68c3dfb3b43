"""Settings shown and changed on the wire."""

from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from lakestream_spark.app import RunningBroker
from lakestream_spark.ingress.config_entries import Source
from lakestream_spark.ingress.handlers import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
)
from tests.support.asking import Asking, ends
from tests.support.embedded import embedded_lake
from tests.support.wire import Wire

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


# DescribeConfigs


async def describe(
    wire: Wire,
    *resources: tuple[int, str, tuple[str, ...] | None],
    version: int = 4,
    **values: bool,
) -> Any:
    api = Asking(wire, describe_configs.API_KEY, version)
    given = tuple(
        api.part(
            "DescribeConfigsResource",
            resource_type=kind,
            resource_name=name,
            configuration_keys=keys,
        )
        for kind, name, keys in resources
    )
    body = await api.ask("DescribeConfigsRequest", resources=given, **values)
    return body.results


@ends(describe_configs)
async def test_topic_settings_are_shown_with_their_sources(
    lake: RunningBroker, wire: Wire, version: int
) -> None:
    await lake.metadata.topics.create("a", config={"retention.ms": "5"})
    keys = ("retention.ms", "max.message.bytes", "lakestream.table.formats", "no.such")
    (result,) = await describe(
        wire,
        (TOPIC, "a", keys),
        version=version,
        include_synonyms=True,
        include_documentation=True,
    )
    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, "a")
    entries = {each.name: each for each in result.configs}
    assert set(entries) == set(keys) - {"no.such"}
    retention = entries["retention.ms"]
    assert (retention.value, retention.config_source, retention.read_only) == ("5", 1, False)
    synonyms = [(each.name, each.value, each.source) for each in retention.synonyms]
    assert synonyms == [("retention.ms", "5", 1), ("log.retention.ms", "-1", 5)]
    assert [each.name for each in entries["max.message.bytes"].synonyms] == ["message.max.bytes"]
    assert entries["lakestream.table.formats"].synonyms == ()
    if version == 4:
        assert (retention.config_type, entries["lakestream.table.formats"].config_type) == (5, 7)
        assert retention.documentation.startswith("Records older than this")


async def test_naming_no_setting_shows_all_without_synonyms_and_docs(
    lake: RunningBroker, wire: Wire
) -> None:
    await lake.metadata.topics.create("a")
    (every,) = await describe(wire, (TOPIC, "a", None))
    (empty,) = await describe(wire, (TOPIC, "a", ()))
    assert len(every.configs) == len(empty.configs) > 30
    assert {each.config_source for each in every.configs} == {5}
    assert all(each.synonyms == () for each in every.configs)
    assert all(each.documentation is None for each in every.configs)


async def test_small_request_does_not_become_a_huge_answer(lake: RunningBroker, wire: Wire) -> None:
    await lake.metadata.topics.create("a")
    results = await describe(wire, *[(TOPIC, "a", None)] * 1000)
    assert {(each.error_code, each.configs) for each in results} == {
        (ErrorCode.invalid_request, ())
    }


async def test_broker_settings_have_the_names_of_kafka_and_are_read_only(
    lake: RunningBroker, wire: Wire
) -> None:
    (result,) = await describe(wire, (BROKER, str(lake.address.node_id), None))
    values = {each.name: each.value for each in result.configs}
    assert values["num.partitions"] == "1"
    assert values["message.max.bytes"] == "1048588"
    assert values["auto.create.topics.enable"] == "true"
    assert values["log.retention.ms"] == "-1"
    assert values["advertised.listeners"] == f"PLAINTEXT://{lake.bootstrap}"
    assert values["log.dirs"].startswith("file://")
    assert all(each.read_only and not each.is_sensitive for each in result.configs)


CHANGED = {
    "socket.request.max.bytes": ("broker.socket_request_max_bytes", "2000000"),
    "message.max.bytes": ("broker.message_max_bytes", "1001"),
    "fetch.max.bytes": ("broker.fetch_max_bytes", "2002"),
    "auto.create.topics.enable": ("broker.auto_create_topics_enable", "false"),
    "num.partitions": ("broker.num_partitions", "7"),
    "max.connections": ("broker.max_connections", "1003"),
    "max.connections.per.ip": ("broker.max_connections_per_ip", "1004"),
    "connections.max.idle.ms": ("broker.connections_max_idle_ms", "1005"),
    "max.incremental.fetch.session.cache.slots": ("broker.max_fetch_sessions", "1006"),
    "log.retention.check.interval.ms": ("broker.retention_check_interval_ms", "1007"),
    "producer.id.expiration.ms": ("broker.producer_id_expiration_ms", "1008"),
    "group.initial.rebalance.delay.ms": ("groups.initial_rebalance_delay_ms", "1009"),
    "group.min.session.timeout.ms": ("groups.min_session_timeout_ms", "1010"),
    "group.max.session.timeout.ms": ("groups.max_session_timeout_ms", "1011"),
    "group.max.size": ("groups.max_size", "1012"),
    "offset.metadata.max.bytes": ("groups.offset_metadata_max_bytes", "1013"),
    "offsets.retention.minutes": ("groups.offsets_retention_minutes", "1014"),
}


async def test_broker_settings_show_what_the_broker_was_started_with(tmp_path: Path) -> None:
    async with embedded_lake(tmp_path, more=dict(CHANGED.values())) as lake:
        wire = await Wire.connect(lake.address.port)
        (result,) = await describe(wire, (BROKER, "1", tuple(CHANGED)))
        await wire.close()
    assert {each.name: each.value for each in result.configs} == {
        name: value for name, (_, value) in CHANGED.items()
    }
    static = Source.STATIC_BROKER
    assert {each.config_source for each in result.configs} == {static}


@pytest.mark.parametrize(
    ("kind", "name", "code", "reason"),
    [
        (TOPIC, "b", "unknown_topic_or_partition", "no such topic"),
        (BROKER, "99", "invalid_request", "ask broker '99' itself"),
        (BROKER, "x", "invalid_request", "this is broker"),
        (BROKER_LOGGER, "1", "invalid_request", "BROKER_LOGGER settings are not offered"),
        (CLIENT_METRICS, "m", "invalid_request", "CLIENT_METRICS settings are not offered"),
        (GROUP, "g", "invalid_request", "GROUP settings are not offered"),
        (3, "x", "invalid_request", "no resource type 3"),
    ],
)
async def test_what_has_no_settings_is_refused_with_the_reason(
    wire: Wire, kind: int, name: str, code: str, reason: str
) -> None:
    refused, shared = await describe(wire, (kind, name, None), (BROKER, "", None))
    assert (refused.error_code, refused.configs) == (ErrorCode[code], ())
    assert reason in refused.error_message
    assert (shared.error_code, shared.configs) == (ErrorCode.none, ())


# AlterConfigs and IncrementalAlterConfigs


async def alter(
    wire: Wire,
    *resources: tuple[int, str, list[tuple[Any, ...]]],
    api: Any = incremental_alter_configs,
    version: int | None = None,
    validate_only: bool = False,
) -> Any:
    asking = Asking(wire, api.API_KEY, api.VERSIONS[-1] if version is None else version)
    given = []
    for kind, name, entries in resources:
        configs = []
        for key, value, *operation in entries:
            op = operation[0] if operation else SET
            configs.append(
                asking.part("AlterableConfig", name=key, value=value, config_operation=op)
            )
        given.append(
            asking.part(
                "AlterConfigsResource",
                resource_type=kind,
                resource_name=name,
                configs=tuple(configs),
            )
        )
    request = "AlterConfigsRequest" if api is alter_configs else "IncrementalAlterConfigsRequest"
    body = await asking.ask(request, resources=tuple(given), validate_only=validate_only)
    return body.responses


@ends(alter_configs)
async def test_altering_replaces_all_settings(
    lake: RunningBroker, wire: Wire, version: int
) -> None:
    await lake.metadata.topics.create("a", config={"retention.ms": "5"})
    change = (TOPIC, "a", [("retention.bytes", "7")])
    (result,) = await alter(wire, change, api=alter_configs, version=version)
    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, "a")
    assert (await lake.metadata.topics.get("a")).config == {"retention.bytes": "7"}


@ends(incremental_alter_configs)
async def test_settings_are_changed_one_by_one(
    lake: RunningBroker, wire: Wire, version: int
) -> None:
    await lake.metadata.topics.create("a", config={"retention.ms": "5", "segment.ms": "9"})
    changes = [
        ("retention.bytes", "7"),
        ("segment.ms", None, DELETE),
        ("flush.ms", None, DELETE),
        ("cleanup.policy", "compact", APPEND),
        ("lakestream.table.formats", "delta", APPEND),
    ]
    (result,) = await alter(wire, (TOPIC, "a", changes), version=version)
    assert (result.error_code, result.error_message) == (ErrorCode.none, None)
    assert (await lake.metadata.topics.get("a")).config == {
        "retention.ms": "5",
        "retention.bytes": "7",
        "cleanup.policy": "delete,compact",
        "lakestream.table.formats": "iceberg,delta",
    }
    changes = [("cleanup.policy", "delete,nothing", SUBTRACT)]
    await alter(wire, (TOPIC, "a", changes), version=version)
    assert (await lake.metadata.topics.get("a")).config["cleanup.policy"] == "compact"


@pytest.mark.parametrize("api", [alter_configs, incremental_alter_configs])
async def test_validating_a_change_changes_nothing(
    lake: RunningBroker, wire: Wire, api: Any
) -> None:
    await lake.metadata.topics.create("a")
    good, bad = await alter(
        wire,
        (TOPIC, "a", [("retention.ms", "5")]),
        (TOPIC, "b", [("retention.ms", "x")]),
        api=api,
        validate_only=True,
    )
    assert good.error_code is ErrorCode.none
    assert bad.error_code is ErrorCode.unknown_topic_or_partition
    assert (await lake.metadata.topics.get("a")).config == {}


@pytest.mark.parametrize("api", [alter_configs, incremental_alter_configs])
@pytest.mark.parametrize(
    ("resource", "code", "reason"),
    [
        ((TOPIC, "b", []), "unknown_topic_or_partition", "no such topic"),
        ((TOPIC, "a", [("retention.ms", "x")]), "invalid_config", "whole number from -1 on"),
        ((TOPIC, "a", [("retention.m", "1")]), "invalid_config", "did you mean 'retention.ms'"),
        ((TOPIC, "a", [("retention.ms", None)]), "invalid_request", "value"),
        ((TOPIC, "a", [("flush.ms", "1"), ("flush.ms", "2")]), "invalid_request", "twice"),
        ((BROKER, "1", [("num.partitions", "3")]), "invalid_request", "settings file"),
        ((BROKER_LOGGER, "1", [("root", "INFO")]), "invalid_request", "log levels"),
        ((CLIENT_METRICS, "m", []), "invalid_request", "client metrics"),
        ((GROUP, "g", []), "invalid_request", "groups have no settings"),
        ((5, "x", []), "invalid_request", "no resource type 5"),
    ],
)
async def test_wrong_change_is_refused_whole_with_the_reason(
    lake: RunningBroker, wire: Wire, api: Any, resource: Any, code: str, reason: str
) -> None:
    await lake.metadata.topics.create("a", config={"segment.ms": "9"})
    kind, name, entries = resource
    (result,) = await alter(wire, (kind, name, [("preallocate", "true"), *entries]), api=api)
    assert result.error_code is ErrorCode[code]
    assert reason in result.error_message
    assert (await lake.metadata.topics.get("a")).config == {"segment.ms": "9"}


@pytest.mark.parametrize(
    ("change", "code", "reason"),
    [
        (("retention.ms", "1", APPEND), "invalid_config", "not a list"),
        (("nothing", "1", SUBTRACT), "invalid_config", "no topic setting 'nothing'"),
        (("cleanup.policy", None, APPEND), "invalid_request", "needs a value"),
        (("cleanup.policy", "archive", APPEND), "invalid_config", "delete, compact, or both"),
        (("lakestream.table.formats", "iceberg", SUBTRACT), "invalid_config", "iceberg"),
        (("retention.ms", "1", 9), "invalid_request", "no operation 9"),
    ],
)
async def test_wrong_operation_is_refused_with_the_reason(
    lake: RunningBroker, wire: Wire, change: tuple[Any, ...], code: str, reason: str
) -> None:
    await lake.metadata.topics.create("a")
    (result,) = await alter(wire, (TOPIC, "a", [change]))
    assert result.error_code is ErrorCode[code]
    assert reason in result.error_message


@pytest.mark.parametrize("api", [alter_configs, incremental_alter_configs])
async def test_resource_that_is_named_twice_is_not_changed(
    lake: RunningBroker, wire: Wire, api: Any
) -> None:
    for name in ("a", "b"):
        await lake.metadata.topics.create(name)
    change = [("retention.ms", "5")]
    named = [(TOPIC, name, change) for name in ("a", "b", "a")]
    codes = [each.error_code for each in await alter(wire, *named, api=api)]
    assert codes == [ErrorCode.invalid_request, ErrorCode.none, ErrorCode.invalid_request]
    assert (await lake.metadata.topics.get("a")).config == {}


async def test_table_name_of_another_topic_cannot_be_taken_later(
    lake: RunningBroker, wire: Wire
) -> None:
    await lake.metadata.topics.create("a")
    await lake.metadata.topics.create("b", config={"lakestream.table.name": "facts"})
    taken = [("lakestream.table.name", name) for name in ("facts", "b")]
    (refused,) = await alter(wire, (TOPIC, "a", taken[:1]), validate_only=True)
    assert refused.error_code is ErrorCode.invalid_config
    assert "the table 'streams.facts' is that of the topic 'b'" in refused.error_message
    (free,) = await alter(wire, (TOPIC, "a", taken[1:]))
    assert free.error_code is ErrorCode.none
    (back,) = await alter(wire, (TOPIC, "b", [("lakestream.table.name", None, DELETE)]))
    assert back.error_code is ErrorCode.invalid_config
