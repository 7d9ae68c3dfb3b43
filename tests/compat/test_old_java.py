"""Tools of Apache Kafka 2.8, whose clients speak the oldest versions that are served."""

import os
import subprocess
from pathlib import Path

import pytest

from lakestream_spark.spark.jars import require_pyspark
from tests.support.ingress_process import Listening, ingress
from tests.support.kafka_jars import fetched

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

OLD_TOOLS = ("org.apache.kafka:kafka_2.13:2.8.2",)
TOPIC = ("--topic", "orders")


def tool(broker: Listening, main: str, *arguments: str, given: str = "") -> str:
    """What a tool prints; it must succeed."""
    scala = (require_pyspark() / "jars").glob("scala-library-*.jar")
    classes = os.pathsep.join(map(str, [*fetched(OLD_TOOLS), *scala]))
    command = ["java", "-cp", classes, main, "--bootstrap-server", broker.kafka, *arguments]
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_topics_records_and_groups_with_tools_of_kafka_2_8(tmp_path: Path) -> None:
    with ingress(tmp_path) as process:
        (broker,) = process.ready()
        shape = ("--partitions", "1", "--replication-factor", "3")
        assert "Created topic orders" in tool(
            broker, "kafka.admin.TopicCommand", "--create", *TOPIC, *shape
        )
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            sending = ("--request-required-acks", "all", "--compression-codec", codec)
            tool(broker, "kafka.tools.ConsoleProducer", *TOPIC, *sending, given=f"{codec}\n")
        reading = ("--from-beginning", "--max-messages", "5", "--timeout-ms", "60000")
        got = tool(broker, "kafka.tools.ConsoleConsumer", *TOPIC, *reading, "--group", "g")
        assert got.split() == ["none", "gzip", "snappy", "lz4", "zstd"]
        group = tool(broker, "kafka.admin.ConsumerGroupCommand", "--describe", "--group", "g")
        assert group.split()[-9:-3] == ["g", "orders", "0", "5", "5", "0"]
        assert process.stop() == 0
