"""Apache Kafka itself: one KRaft node from its published jars, to ask what is right."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer

from lakestream_spark.spark.jars import require_java
from tests.support.kafka_jars import kafka_classpath
from tests.support.ports import free_port

CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"

SETTINGS: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    # One node holds all copies of its own topics.
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # As in the server.properties that Kafka ships.
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.cleaner.threads": "1",
    "log.cleaner.backoff.ms": "500",
    # Tests send old timestamps: nobody comes by and takes them for expired.
    "log.retention.check.interval.ms": "86400000",
}

_START_S: Final = 180.0
_JVM: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class KafkaNode:
    """The process and where it listens."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        jvm: Sequence[str] = _JVM,
    ) -> None:
        self._folder = folder
        self._jvm = jvm
        self._settings = {**SETTINGS, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap = ""

    def start(self) -> None:
        java, classpath = str(require_java()), kafka_classpath()
        properties = self._configure()
        storage = [java, *_JVM, "-cp", classpath, "kafka.tools.StorageTool", "format"]
        storage += ["-t", CLUSTER_ID, "-c", str(properties)]
        done = subprocess.run(
            storage, capture_output=True, text=True, check=False, timeout=_START_S
        )
        assert done.returncode == 0, done.stdout + done.stderr
        with (self._folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                [java, *self._jvm, "-cp", classpath, "kafka.Kafka", str(properties)],
                cwd=self._folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)

    def _configure(self) -> Path:
        broker, controller = free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{broker}"
        settings = {
            **self._settings,
            "log.dirs": str(self._folder / "data"),
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
        }
        properties = self._folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return properties

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_S
        while not _answers(self.bootstrap):
            log = self._folder / "server.log"
            assert self._process.poll() is None, log.read_text(errors="replace")[-4000:]
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-4000:]
            time.sleep(0.1)
        _warm_up(self.bootstrap)


@contextmanager
def kafka_node(
    settings: Mapping[str, str] | None = None, jvm: Sequence[str] = _JVM
) -> Iterator[KafkaNode]:
    """A node in a folder of its own, gone with everything it wrote when the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="lakestream-kafka-"))
    node = KafkaNode(folder, settings, jvm)
    try:
        node.start()
        yield node
    finally:
        node.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _warm_up(bootstrap: str) -> None:
    """Wait for the coordinators, which load on their first use."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    producer.produce("warm-up", b"")
    assert producer.flush(_START_S) == 0
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "warm-up", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["warm-up"])
    message = consumer.poll(_START_S)
    consumer.close()
    assert message is not None
    assert message.error() is None, message.error()


def _answers(bootstrap: str) -> bool:
    host, _, port = bootstrap.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


__all__ = ["CLUSTER_ID", "KafkaNode", "kafka_node"]
