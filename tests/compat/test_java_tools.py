"""The Java client through Kafka's own tools; each test is a few processes that belong together."""

import re

import pytest

from tests.compat.clusters import Cluster, unique
from tests.compat.confluent_admin import AdminClient, create_topic
from tests.support import kafka_tools as tools
from tests.support.kafka import Sent, produce
from tests.support.kafka_tools import Ran, run_tool, tool

# Every tool is a JVM; the oracle is asked by `make test-all`.
pytestmark = pytest.mark.parametrize(
    "cluster", ["lakestream", pytest.param("kafka", marks=pytest.mark.slow)], indirect=True
)


@pytest.fixture
def topic() -> str:
    return unique("java")


def ask(cluster: Cluster, main_class: str, *arguments: str, typed: str | None = None) -> Ran:
    return tool(main_class, "--bootstrap-server", cluster.bootstrap, *arguments, typed=typed)


def create(cluster: Cluster, topic: str, partitions: int = 1) -> None:
    """Not by the tool, which takes seconds."""
    create_topic(AdminClient({"bootstrap.servers": cluster.bootstrap}), topic, partitions)


def test_kafka_topics_creates_describes_lists_and_deletes(cluster: Cluster, topic: str) -> None:
    ask(cluster, tools.TOPICS, "--create", "--topic", topic, "--partitions", "3")
    described = ask(cluster, tools.TOPICS, "--describe", "--topic", topic).out
    assert "PartitionCount: 3" in described
    assert len(re.findall(r"Leader: 1\b.*Isr: 1\b", described)) == 3
    assert topic in ask(cluster, tools.TOPICS, "--list").lines
    again = run_tool(
        tools.TOPICS, "--bootstrap-server", cluster.bootstrap, "--create", "--topic", topic
    )
    assert again.code == 1
    assert "exists" in again.out
    ask(cluster, tools.TOPICS, "--delete", "--topic", topic)


@pytest.mark.slow
def test_kafka_topics_adds_partitions(cluster: Cluster, topic: str) -> None:
    create(cluster, topic, 2)
    ask(cluster, tools.TOPICS, "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in ask(cluster, tools.TOPICS, "--describe", "--topic", topic).out


@pytest.mark.parametrize(
    "codecs",
    [("lz4",), pytest.param(("none", "gzip", "snappy", "zstd"), marks=pytest.mark.slow)],
    ids=",".join,
)
def test_the_console_writes_and_reads_keys_and_headers(
    cluster: Cluster, topic: str, codecs: tuple[str, ...]
) -> None:
    typed = "h1:v1,h2:v2\tkey-1\tfirst\nh1:v3\tkey-2\tsecond\n"
    properties = ("parse.key=true", "parse.headers=true")
    options = [word for each in properties for word in ("--reader-property", each)]
    for codec in codecs:
        compressed = ("--topic", topic, "--compression-codec", codec)
        ask(cluster, tools.CONSOLE_PRODUCER, *compressed, *options, typed=typed)
    read = ask(
        cluster,
        tools.CONSOLE_CONSUMER,
        *("--topic", topic, "--from-beginning", "--timeout-ms", "120000"),
        *("--max-messages", str(2 * len(codecs))),
        *("--formatter-property", "print.key=true"),
        *("--formatter-property", "print.headers=true"),
        *("--formatter-property", "print.offset=true"),
    )
    expected = ["h1:v1,h2:v2\tkey-1\tfirst", "h1:v3\tkey-2\tsecond"] * len(codecs)
    assert read.lines == [f"Offset:{offset}\t{record}" for offset, record in enumerate(expected)]


def test_kafka_consumer_groups_lists_describes_resets_and_deletes(
    cluster: Cluster, topic: str
) -> None:
    group = unique("java-group")
    create(cluster, topic)
    produce(cluster.bootstrap, topic, [Sent(None, str(n).encode()) for n in range(10)])
    read = ("--topic", topic, "--group", group, "--from-beginning")
    limits = ("--max-messages", "10", "--timeout-ms", "120000")
    assert len(ask(cluster, tools.CONSOLE_CONSUMER, *read, *limits).lines) == 10
    described = ask(cluster, tools.CONSUMER_GROUPS, "--describe", "--group", group)
    (row,) = [line.split() for line in described.lines if topic in line]
    # GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID; newer
    # tools put the leader epoch before the end.
    assert row[:3] == [group, topic, "0"]
    assert "10" in row[3:]
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "4", "--execute")
    assert re.search(rf"{topic}\s+0\s+4\b", ask(cluster, tools.CONSUMER_GROUPS, *reset).out)
    assert group in ask(cluster, tools.CONSUMER_GROUPS, "--list").lines
    ask(cluster, tools.CONSUMER_GROUPS, "--delete", "--group", group)


@pytest.mark.slow
def test_kafka_consumer_groups_tells_state_and_members(cluster: Cluster, topic: str) -> None:
    group = unique("java-group")
    create(cluster, topic)
    read = ("--topic", topic, "--group", group, "--timeout-ms", "4000")
    ask(cluster, tools.CONSOLE_CONSUMER, *read)
    state = ask(cluster, tools.CONSUMER_GROUPS, "--describe", "--group", group, "--state").out
    assert re.search(rf"{group}\s.*Empty\s+0", state)


def test_kafka_configs_changes_and_shows_settings(cluster: Cluster, topic: str) -> None:
    create(cluster, topic)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    changes = "retention.ms=3600000,cleanup.policy=[compact,delete]"
    ask(cluster, tools.CONFIGS, "--alter", *entity, "--add-config", changes)
    shown = ask(cluster, tools.CONFIGS, "--describe", *entity).out
    assert "retention.ms=3600000" in shown
    assert "cleanup.policy=compact,delete" in shown
    wrong = run_tool(
        tools.CONFIGS,
        *("--bootstrap-server", cluster.bootstrap, "--alter", *entity),
        *("--add-config", "retention.ms=soon"),
    )
    assert wrong.code == 1
    assert "InvalidConfigurationException" in wrong.out + wrong.err


@pytest.mark.slow
def test_kafka_configs_shows_every_setting_of_topic_and_broker(
    cluster: Cluster, topic: str
) -> None:
    create(cluster, topic)
    entity = ("--entity-type", "topics", "--entity-name", topic)
    assert "max.message.bytes=" in ask(cluster, tools.CONFIGS, "--describe", "--all", *entity).out
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    assert "message.max.bytes=" in ask(cluster, tools.CONFIGS, "--describe", "--all", *broker).out


def test_kafka_get_offsets_and_delete_records_agree(cluster: Cluster, topic: str, tmp_path) -> None:
    create(cluster, topic)
    produce(cluster.bootstrap, topic, [Sent(None, b"x")] * 10)
    wanted = tmp_path / "offsets.json"
    wanted.write_text(
        f'{{"partitions": [{{"topic": "{topic}", "partition": 0, "offset": 3}}], "version": 1}}'
    )
    deleted = ask(cluster, tools.DELETE_RECORDS, "--offset-json-file", str(wanted)).out
    assert "low_watermark: 3" in deleted

    def at(time: str) -> list[str]:
        return ask(cluster, tools.GET_OFFSETS, "--topic", topic, "--time", time).lines

    assert at("earliest") == [f"{topic}:0:3"]
    assert at("latest") == [f"{topic}:0:10"]


@pytest.mark.slow
@pytest.mark.parametrize("time", ["max-timestamp", "earliest-local", "1700000000000"])
def test_kafka_get_offsets_by_special_times(cluster: Cluster, topic: str, time: str) -> None:
    create(cluster, topic)
    produce(cluster.bootstrap, topic, [Sent(None, b"x")] * 10)
    expected = {"max-timestamp": 9, "earliest-local": 0, "1700000000000": 0}[time]
    lines = ask(cluster, tools.GET_OFFSETS, "--topic", topic, "--time", time).lines
    # Of several records with the newest time either the first or the last may be named.
    assert lines in ([f"{topic}:0:{expected}"], [f"{topic}:0:0"])


def test_the_perf_tools_write_and_read_all_records(cluster: Cluster, topic: str) -> None:
    create(cluster, topic, 3)
    wrote = tool(
        tools.PRODUCER_PERF,
        *("--topic", topic, "--num-records", "20000", "--record-size", "100"),
        *("--throughput", "-1", "--bootstrap-server", cluster.bootstrap),
        *("--command-property", "acks=all", "--command-property", "compression.type=lz4"),
    )
    assert "20000 records sent" in wrote.out
    read = ask(
        cluster,
        tools.CONSUMER_PERF,
        *("--topic", topic, "--num-records", "20000", "--timeout", "120000", "--hide-header"),
    )
    assert int(float(read.lines[-1].split(", ")[4])) >= 20_000


def test_the_verifiable_tools_agree_on_every_record(cluster: Cluster, topic: str) -> None:
    create(cluster, topic, 2)
    wrote = ask(
        cluster,
        tools.VERIFIABLE_PRODUCER,
        *("--topic", topic, "--max-messages", "500", "--throughput", "-1", "--acks", "-1"),
    )
    sent = [each for each in wrote.events if each["name"] == "producer_send_success"]
    assert len(sent) == 500
    read = ask(
        cluster,
        tools.VERIFIABLE_CONSUMER,
        *("--topic", topic, "--group-id", unique("verifiable"), "--max-messages", "500"),
        *("--session-timeout", "30000", "--verbose"),
    )
    got = [each for each in read.events if each["name"] == "record_data"]
    assert sorted((each["partition"], each["offset"], each["value"]) for each in got) == sorted(
        (each["partition"], each["offset"], each["value"]) for each in sent
    )
    committed = [each for each in read.events if each["name"] == "offsets_committed"]
    assert committed
    assert all(each["success"] for each in committed)


def test_every_api_that_is_offered_is_usable_by_the_java_client(cluster: Cluster) -> None:
    listed = ask(cluster, tools.API_VERSIONS).out
    apis = re.findall(r"^\t(\w+)\((\d+)\): (.*?),?$", listed, re.MULTILINE)
    assert len(apis) > 30
    offered = {name: text for name, _, text in apis if "UNSUPPORTED" not in text}
    for name in ("Produce", "Fetch", "ListOffsets", "Metadata", "JoinGroup", "OffsetCommit"):
        assert "usable" in offered[name]
