import pytest

from lakestream_spark.core.errors import InvalidConfig
from lakestream_spark.metadata.topic_config import SETTINGS, TopicConfig, check_config
from lakestream_spark.metadata.topic_config.checked import MAX_VALUE_CHARS
from lakestream_spark.metadata.topic_config.values import KEEP

KAFKA_4_SETTINGS = [
    "cleanup.policy",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
]


def test_every_setting_that_kafka_4_knows_is_there_and_all_others_have_our_prefix() -> None:
    ours = set(SETTINGS) - set(KAFKA_4_SETTINGS)
    assert set(KAFKA_4_SETTINGS) <= set(SETTINGS)
    assert all(name.startswith("lakestream.") for name in ours)


def test_every_default_is_allowed_and_every_setting_has_a_doc() -> None:
    assert check_config({name: each.default for name, each in SETTINGS.items()})
    assert all(setting.doc.endswith(".") for setting in SETTINGS.values())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "-1"),
        ("retention.ms", " +5 "),
        ("retention.ms", str(2**63 - 1)),
        ("cleanup.policy", "compact, delete"),
        ("cleanup.policy", ""),
        ("preallocate", "TRUE"),
        ("min.cleanable.dirty.ratio", "1e-3"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
        ("follower.replication.throttled.replicas", "*"),
        ("lakestream.profile", "latency"),
        ("lakestream.table.formats", "iceberg,delta"),
        ("lakestream.table.lag.ms", "900000"),
        ("lakestream.table.name", "orders_2024"),
        ("lakestream.table.name", "sales.orders"),
        ("lakestream.table.name", ""),
        ("lakestream.table.on.delete", "drop"),
    ],
)
def test_right_values_are_kept_as_given(name: str, value: str) -> None:
    assert check_config({name: value}) == {name: value}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("retention.ms", "-2", "retention.ms cannot be '-2'; it takes a whole number from -1 on"),
        ("retention.ms", "1_000", "'1_000'"),
        ("retention.ms", "٣", "a whole number"),
        ("retention.ms", str(2**63), "a whole number"),
        ("max.message.bytes", str(2**31), "a whole number"),
        ("min.insync.replicas", "0", "from 1 on"),
        ("min.cleanable.dirty.ratio", "1.5", "a number from 0 to 1"),
        ("min.cleanable.dirty.ratio", "nan", "a number from 0 to 1"),
        ("cleanup.policy", "Delete", "delete, compact, or both"),
        ("cleanup.policy", "delete,,compact", "delete, compact, or both"),
        ("compression.type", "brotli", "one of producer, uncompressed, gzip, snappy, lz4, zstd"),
        ("message.timestamp.type", "createtime", "one of CreateTime, LogAppendTime"),
        ("preallocate", "yes", "true or false"),
        ("remote.storage.enable", "true", "only false"),
        ("leader.replication.throttled.replicas", "0-1", "pairs partition:broker"),
        ("lakestream.profile", "fast", "one of cost, latency"),
        ("lakestream.table.lag.ms", "999", "from 1000 to 900000"),
        ("lakestream.table.formats", "delta", "iceberg, or iceberg,delta"),
        ("lakestream.table.name", "Orders", "lower-case"),
        ("lakestream.table.name", "a__b", "single underscores"),
        ("lakestream.table.name", "../x", "lower-case"),
        ("lakestream.table.name", "x" * 129, "at most 128"),
        ("lakestream.table.name", "orders_deadbeef", "eight hex digits"),
        ("lakestream.table.name", "sales.orders_deadbeef", "eight hex digits"),
        ("lakestream.table.name", "eu.sales.orders", "a namespace, a dot and a name"),
        ("lakestream.table.name", ".orders", "a namespace, a dot and a name"),
        ("lakestream.table.name", "sales.", "a namespace, a dot and a name"),
        ("lakestream.table.name", "system.orders", "no namespace that engines keep"),
        ("lakestream.table.name", "information_schema.a", "no namespace that engines keep"),
        ("lakestream.table.on.delete", "purge", "one of keep, drop"),
        ("retention.ms", None, "retention.ms needs a value"),
        ("retention.sm", "1", "no topic setting 'retention.sm'; did you mean 'retention.ms'?"),
        ("profile", "cost", "did you mean 'lakestream.profile'?"),
        ("xyzzy", "1", "no topic setting 'xyzzy'; `lakestream topic settings` lists"),
    ],
)
def test_wrong_settings_are_refused_with_the_reason(
    name: str, value: str | None, reason: str
) -> None:
    with pytest.raises(InvalidConfig) as refused:
        check_config({"retention.bytes": "1", name: value})
    assert reason in str(refused.value)


def test_refusal_of_a_huge_name_or_value_is_short() -> None:
    huge = "0:1," * MAX_VALUE_CHARS + "0:1"
    for config in ({"leader.replication.throttled.replicas": huge}, {huge: "1"}):
        with pytest.raises(InvalidConfig) as refused:
            check_config(config)
        assert len(str(refused.value)) < 300


def test_compaction_lags_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"min.compaction.lag.ms \(5\) is above"):
        check_config({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"})


def test_typed_values_of_a_topic_without_settings_are_the_defaults() -> None:
    values = TopicConfig.of({})
    assert (values.retention_ms, values.retention_bytes) == (KEEP, KEEP)
    assert (values.profile, values.table_lag_ms) == ("cost", 60_000)
    assert (values.table_formats, values.table) == (("iceberg",), None)
    assert not any((values.append_time, values.compacted, values.drop_table_on_delete))
    assert values.max_message_bytes is None


def test_typed_values_follow_the_settings() -> None:
    config = {
        "cleanup.policy": "compact,delete",
        "max.message.bytes": "77",
        "message.timestamp.type": "LogAppendTime",
        "retention.ms": "5",
        "lakestream.profile": "latency",
        "lakestream.table.formats": "iceberg,delta",
        "lakestream.table.name": "sales.o",
        "lakestream.table.on.delete": "drop",
    }
    values = TopicConfig.of(config)
    assert values.append_time
    assert values.compacted
    assert values.drop_table_on_delete
    assert (values.max_message_bytes, values.retention_ms, values.profile) == (77, 5, "latency")
    assert (values.table_formats, values.table) == (("iceberg", "delta"), ("sales", "o"))
    assert TopicConfig.of(dict(config)) is values


@pytest.mark.parametrize("policy", ["compact", ""])
def test_retention_is_only_for_topics_with_the_policy_delete(policy: str) -> None:
    values = TopicConfig.of({"cleanup.policy": policy, "retention.ms": "5", "retention.bytes": "5"})
    assert (values.retention_ms, values.retention_bytes) == (KEEP, KEEP)
    assert not values.expires


def test_stored_value_of_a_newer_version_counts_as_not_set() -> None:
    values = TopicConfig.of({"lakestream.profile": "warp", "retention.ms": "a week", "x": "y"})
    assert (values.profile, values.retention_ms) == ("cost", KEEP)
