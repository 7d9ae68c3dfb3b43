"""The Java tools of Apache Kafka, each run as a process of its own."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from lakestream_spark.spark.jars import require_java
from tests.support.kafka_jars import kafka_classpath

TOPICS: Final = "org.apache.kafka.tools.TopicCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"
CONSOLE_PRODUCER: Final = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSUMER_GROUPS: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
GET_OFFSETS: Final = "org.apache.kafka.tools.GetOffsetShell"
PRODUCER_PERF: Final = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER_PERF: Final = "org.apache.kafka.tools.ConsumerPerformance"
VERIFIABLE_PRODUCER: Final = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER: Final = "org.apache.kafka.tools.VerifiableConsumer"
DELETE_RECORDS: Final = "org.apache.kafka.tools.DeleteRecordsCommand"
API_VERSIONS: Final = "org.apache.kafka.tools.BrokerApiVersionsCommand"

_JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_WITHIN_S: Final = 240


class Ran(NamedTuple):
    """How a tool ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of a tool that speaks JSON."""
        return [json.loads(line) for line in self.lines if line.startswith("{")]


@contextmanager
def running_tool(main_class: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A tool that runs until it is told to end; killed if it still runs when the block ends."""
    with subprocess.Popen(
        [str(require_java()), *_JVM, "-cp", kafka_classpath(), main_class, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run_tool(main_class: str, *arguments: str, typed: str | None = None) -> Ran:
    """Run a tool to its end; `typed` is what it reads from its standard input."""
    done = subprocess.run(
        [str(require_java()), *_JVM, "-cp", kafka_classpath(), main_class, *arguments],
        input=typed,
        stdin=subprocess.DEVNULL if typed is None else None,
        capture_output=True,
        text=True,
        check=False,
        timeout=_WITHIN_S,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def tool(main_class: str, *arguments: str, typed: str | None = None) -> Ran:
    """The same, of a tool that must succeed."""
    ran = run_tool(main_class, *arguments, typed=typed)
    assert ran.code == 0, ran.out + ran.err
    return ran
