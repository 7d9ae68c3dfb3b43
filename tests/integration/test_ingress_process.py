"""`lakestream ingress` as users run it: real processes, real clients, real signals."""

import json
import os
import signal
import sqlite3
import threading
import time
from functools import partial
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lakestream_spark.core import metrics
from tests.support.ingress_process import Ingress, Listening, eventually, ingress

pytestmark = pytest.mark.timeout(900)

QUICK = ("--set", "broker.heartbeat_interval_ms=250", "--set", "broker.session_timeout_ms=2000")


def live_nodes(listening: Listening) -> set[int]:
    client = AdminClient({"bootstrap.servers": listening.kafka})
    return set(client.list_topics(timeout=60).brokers)


def send(listening: Listening, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": listening.kafka, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=0)
    assert producer.flush(120) == 0


def values(bootstrap: str, topic: str) -> list[bytes]:
    """Everything in partition 0."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes] = []
        while len(found) < end:
            messages = consumer.consume(end - len(found), 60)
            assert messages, f"{len(found)} of {end} records"
            assert not any(message.error() for message in messages)
            found += [message.value() or b"" for message in messages]
        return found
    finally:
        consumer.close()


def rests(workers: list[psutil.Process], seconds: float = 3.0) -> bool:
    """Whether every worker leaves its core alone for a while; one that polls never does."""
    before = [sum(worker.cpu_times()[:2]) for worker in workers]
    time.sleep(seconds)
    used = [sum(w.cpu_times()[:2]) - b for w, b in zip(workers, before, strict=True)]
    return max(used) < seconds * 0.1


def test_one_broker_starts_serves_and_stops_with_code_0(tmp_path):
    with ingress(tmp_path) as process:
        (broker,) = process.ready()
        assert broker.node_id == 1
        send(broker, "orders", 100)
        assert len(values(broker.kafka, "orders")) == 100
        assert broker.get("/healthz")[0] == 200
        eventually(lambda: broker.get("/readyz")[0] == 200)
        status, page = broker.get("/metrics")
        assert status == 200
        assert [name for name in metrics.NAMES if f"# TYPE {name} " not in page] == []
        assert 'lakestream_wal_commit_seconds_count{profile="cost"}' in page
        assert process.stop() == 0
    with sqlite3.connect(tmp_path / "metadata.db") as database:
        assert database.execute("SELECT count(*) FROM brokers").fetchone() == (0,)
        assert database.execute("SELECT count(*) FROM writers WHERE fenced = 0").fetchone() == (0,)
        assert (
            database.execute("SELECT holder FROM leases WHERE holder IS NOT NULL").fetchall() == []
        )


def test_an_open_address_is_one_warning_and_an_interrupt_stops_in_good_order(tmp_path):
    with ingress(tmp_path, "--set", "log.format=json", "--set", "broker.host=0.0.0.0") as process:
        process.ready()
        assert process.stop(signal.SIGINT) == 0
    entries = [json.loads(line) for line in process.log]
    (warning,) = [entry for entry in entries if entry["level"] == "warning"]
    assert "there is no authentication yet" in warning["event"]
    assert (warning["broker"], warning["host"]) == (1, "0.0.0.0")


def test_workers_serve_each_others_partitions_and_rest_when_idle(tmp_path):
    with ingress(tmp_path, "--workers", "2", *QUICK) as process:
        first, second = process.ready(2)
        assert {first.node_id, second.node_id} == {1, 2}
        eventually(lambda: live_nodes(first) == live_nodes(second) == {1, 2})
        for number in range(4):
            send((first, second)[number % 2], f"topic-{number}", 50)
        for number in range(4):
            assert len(values((second, first)[number % 2].kafka, f"topic-{number}")) == 50
        workers = process.workers()
        assert len(workers) == 2
        # What ends after the last request counts as work; only rest that never comes is wrong.
        eventually(lambda: rests(workers))
        assert max(worker.memory_info().rss for worker in workers) < 400 * 2**20
        assert process.stop() == 0
        assert not any(worker.is_running() for worker in workers)


def test_a_killed_broker_leaves_metadata_and_is_started_again(tmp_path):
    with ingress(tmp_path, "--workers", "2", *QUICK) as process:
        first, second = process.ready(2)
        eventually(lambda: live_nodes(first) == {1, 2})
        victim = _process_of(process, second)
        # A parent that sleeps starts nothing, so that the gap is as long as it takes to see it.
        parent = psutil.Process(process.process.pid)
        parent.suspend()
        victim.kill()
        eventually(lambda: live_nodes(first) == {1})
        parent.resume()
        (again,) = process.ready()
        assert again == second, "it comes back under the address that clients know"
        eventually(lambda: live_nodes(first) == {1, 2})
        assert process.stop() == 0
        assert "is started again" in "".join(process.log)


def test_a_broker_that_alone_is_told_to_stop_is_started_again(tmp_path):
    with ingress(tmp_path, "--workers", "2", *QUICK) as process:
        _, second = process.ready(2)
        _process_of(process, second).terminate()
        assert process.ready() == [second]
        assert process.stop() == 0
    assert "a process ended by itself and is started again" in "".join(process.log)


@pytest.mark.parametrize("name", ["ingress", "up"])
def test_a_damaged_metadata_store_ends_all_processes_with_its_sentence(tmp_path, name):
    (tmp_path / "metadata.db").write_bytes(b"no database" * 1000)
    workers = ("--workers", "2") if name == "ingress" else ()
    with ingress(tmp_path, *workers, name=name) as process:
        assert process.wait() == 5
    said = "".join(process.log)
    assert "lakestream: the metadata store's file is damaged: put a back-up of it in its" in said


def test_processes_below_a_parent_with_debug_show_the_traceback_of_their_error(tmp_path):
    (tmp_path / "metadata.db").write_bytes(b"no database" * 1000)
    with ingress(tmp_path, "--workers", "2", flags=["--debug"]) as process:
        assert process.wait() == 5
    assert "Traceback (most recent call last)" in "".join(process.log)


@pytest.mark.parametrize("after_s", [0.3, 0.6, 1.0, 1.5])
def test_a_signal_during_the_start_ends_all_processes(tmp_path, after_s):
    with ingress(tmp_path, "--workers", "2", *QUICK) as process:
        time.sleep(after_s)
        began = time.monotonic()
        assert process.stop() in (0, -signal.SIGTERM)
        assert time.monotonic() - began < 60


@pytest.mark.slow
def test_workers_stop_when_their_parent_is_killed(tmp_path):
    with ingress(tmp_path, "--workers", "2") as process:
        process.ready(2)
        workers = process.workers()
        process.process.kill()
        process.wait()
        _, alive = psutil.wait_procs(workers, timeout=120)
        assert alive == []


def test_a_second_broker_of_a_node_id_is_refused_while_the_first_lives(tmp_path):
    with ingress(tmp_path, *QUICK) as first:
        (own,) = first.ready()
        with ingress(tmp_path, *QUICK) as second:
            assert second.wait() == 2
            (said,) = second.log
            assert f"a broker with node id 1 runs on this data already, at {own.kafka}" in said
        send(own, "orders", 10)
        first.stop(signal.SIGKILL)
        # Its row is still there, and nobody waits for that.
        with ingress(tmp_path, *QUICK) as third:
            (again,) = third.ready()
            assert len(values(again.kafka, "orders")) == 10
            assert third.stop() == 0


def test_a_broker_that_is_replaced_stops_and_says_by_whom(tmp_path):
    with ingress(tmp_path, *QUICK) as old:
        old.ready()  # before the other is started: who joins last wins
        # As where the metadata store is a server, and no lock of one machine tells.
        (tmp_path / "broker-1.lock").unlink()
        with ingress(tmp_path, *QUICK) as new:
            (newcomer,) = new.ready()
            assert old.wait() == 4
            said = "".join(old.log)
            assert "another process joined with this node id" in said
            assert newcomer.kafka in said
            send(newcomer, "orders", 10)
            assert new.stop() == 0


@pytest.mark.slow
def test_a_broker_that_slept_and_was_taken_for_dead_is_started_again(tmp_path):
    settings = (*QUICK, "--set", "broker.session_timeout_ms=1000")
    with ingress(tmp_path, "--workers", "2", *settings) as process:
        first, second = process.ready(2)
        sleeper = _process_of(process, second)
        sleeper.suspend()
        eventually(lambda: any("removed a dead broker" in line for line in process.log))
        sleeper.resume()
        assert process.ready() == [second]
        send(second, "orders", 10)
        assert len(values(first.kafka, "orders")) == 10
        assert process.stop() == 0


class SteadyLoad:
    """An idempotent producer that never stops, and what became of every record."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[int, bytes] = {}
        self.errors: list[KafkaError] = []
        self._sent = 0
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 180_000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)

    def went_on_after(self, acknowledged: int) -> bool:
        return len(self.acknowledged) > acknowledged + 200

    def __enter__(self) -> "SteadyLoad":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            value = f"value-{self._sent}".encode()
            self._producer.produce("load", value, partition=0, on_delivery=self._delivered)
            self._sent += 1
            self._producer.poll(0)
            time.sleep(0.002)
        assert self._producer.flush(180) == 0

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acknowledged[message.offset()] = message.value()


def test_restarts_in_turn_under_load_lose_nothing_and_no_client_sees_an_error(tmp_path):
    def start(node: int) -> Ingress:
        port = ("--port", str(ports[node])) if node in ports else ()
        return Ingress(tmp_path, "--set", f"broker.id={node}", *QUICK, *port)

    ports: dict[int, str] = {}
    running = {node: start(node) for node in (1, 2)}
    try:
        brokers = {node: process.ready()[0] for node, process in running.items()}
        ports |= {node: broker.kafka.rpartition(":")[2] for node, broker in brokers.items()}
        bootstrap = ",".join(broker.kafka for broker in brokers.values())
        with SteadyLoad(bootstrap) as load:
            eventually(partial(load.went_on_after, 0))
            for node in (1, 2):
                before = len(load.acknowledged)
                assert running[node].stop() == 0
                eventually(partial(load.went_on_after, before))
                running[node] = start(node)
                running[node].ready()
            before = len(load.acknowledged)
            eventually(partial(load.went_on_after, before))
        assert load.errors == []
        found = values(bootstrap, "load")
        assert {offset: found[offset] for offset in load.acknowledged} == load.acknowledged
        assert len(found) == len(set(found)) == len(load.acknowledged)
    finally:
        codes = [process.stop() for process in running.values() if process.process.poll() is None]
    assert codes == [0, 0]


def _process_of(parent: Ingress, broker: Listening) -> psutil.Process:
    """The worker that listens on the broker's port."""
    port = int(broker.kafka.rpartition(":")[2])
    for worker in parent.workers():
        listening = [c for c in worker.net_connections() if c.status == psutil.CONN_LISTEN]
        if port in [connection.laddr.port for connection in listening]:
            return worker
    raise AssertionError(f"no worker listens on {port} ({os.getpid()})")
