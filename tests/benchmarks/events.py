"""JSON events of about 200 bytes, and the clients that send them: librdkafka in a process.

    python -m tests.benchmarks.events '{"role": "fill", ...}'

The same events go to every broker: what is sent follows from the spec alone. All clocks are the
host's monotonic one, so that what one process sends and another sees can be compared.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

EVENT_BYTES: Final = 200
_DISTINCT: Final = 200_000
_CHUNK: Final = 5_000
_TICK_S: Final = 0.01
_WITHIN_S: Final = 600.0

Spec = dict[str, Any]
Event = dict[str, Any]


def events(number: int = _DISTINCT) -> list[Event]:
    """More than a row group has, so that no writer finds the same value twice in one."""
    source = random.Random(7)
    return [{"key": b"user-%07d" % n, "value": _value(source)} for n in range(number)]


def _value(source: random.Random) -> bytes:
    event = source.choice(("view", "click", "buy", "search"))
    country = source.choice(("DE", "FR", "US", "BR", "IN", "JP"))
    time_ms = 1_700_000_000_000 + source.randrange(10**7)
    return (
        f'{{"time":{time_ms},"user":{source.randrange(10**9)},'
        f'"session":"{source.getrandbits(96):024x}","event":"{event}","country":"{country}",'
        f'"price":{source.random():.6f},"page":"/shop/item/{source.randrange(10**6)}",'
        f'"agent":"Mozilla/5.0 (X11; Linux x86_64)"}}'
    ).encode()


def size_of(made: Sequence[Event]) -> int:
    """Bytes of keys and values."""
    return sum(len(each["key"]) + len(each["value"]) for each in made)


def fill(spec: Spec) -> dict[str, Any]:
    """Send `count` events as fast as they are taken, evenly to the partitions."""
    failed: list[str] = []
    producer = Producer(_settings(spec) | {"delivery.report.only.error": True})
    made, size, sent = events(), 0, 0
    for partition in _turns(spec["partitions"]):
        if sent >= spec["count"]:
            break
        first = sent % _DISTINCT
        chunk = made[first : first + min(_CHUNK, spec["count"] - sent)]
        _send(producer, spec["topic"], chunk, partition, failed)
        size, sent = size + size_of(chunk), sent + len(chunk)
    assert not producer.flush(_WITHIN_S), "not all was acknowledged"
    assert not failed, failed[:3]
    return {"bytes": size, "records": sent}


def flow(spec: Spec) -> dict[str, Any]:
    """Send `bytes_per_s` for `seconds` to every topic and partition in turn; of a sample the
    partition, the offset and the time of its acknowledgement."""
    acks: list[tuple[int | None, int | None, float]] = []
    failed: list[str] = []

    def acknowledged(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(str(error))
        else:
            acks.append((message.partition(), message.offset(), time.monotonic()))

    producer = Producer(_settings(spec) | {"delivery.report.only.error": False})
    made, size, sent = events(), 0, 0
    began = time.monotonic()
    a_tick = max(1, int(spec["bytes_per_s"] * _TICK_S / EVENT_BYTES))
    places = [(t, p) for p in range(spec["partitions"]) for t in spec["topics"]]
    for number in count():
        due = began + number * _TICK_S
        if due > began + spec["seconds"]:
            break
        while (wait := due - time.monotonic()) > 0:
            producer.poll(wait)
        topic, partition = places[number % len(places)]
        first = number * a_tick % (_DISTINCT - a_tick)
        chunk = made[first : first + a_tick]
        _send(producer, topic, chunk[1:], partition)  # Calls back for all would cost a core.
        producer.produce(topic, **chunk[0], partition=partition, on_delivery=acknowledged)
        size, sent = size + size_of(chunk), sent + len(chunk)
    assert not producer.flush(_WITHIN_S), "not all was acknowledged"
    assert not failed, failed[:3]
    took = time.monotonic() - began
    return {"bytes": size, "records": sent, "seconds": took, "acks": acks}


def _send(
    producer: Producer,
    topic: str,
    chunk: Sequence[Event],
    partition: int,
    failed: list[str] | None = None,
) -> None:
    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None and failed is not None:
            failed.append(str(error))

    report = {} if failed is None else {"on_delivery": delivered}
    left: list[Event] = list(chunk)
    while left:
        producer.produce_batch(topic, left, partition=partition, **report)
        left = [each for each in left if each.pop("_error", None) is not None]
        producer.poll(0.01 if left else 0)  # Something left: the queue is full.


def _turns(partitions: int) -> Iterator[int]:
    while True:
        yield from range(partitions)


def _settings(spec: Spec) -> dict[str, Any]:
    return {
        "bootstrap.servers": spec["bootstrap"],
        "acks": "all",
        "enable.idempotence": True,
        "compression.type": "lz4",
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 64 * 1024,
        **spec.get("settings", {}),
    }


ROLES: Final[Mapping[str, Callable[[Spec], dict[str, Any]]]] = {"fill": fill, "flow": flow}


def create(bootstrap: str, names: Sequence[str], partitions: int, **config: str) -> None:
    """New topics; `_` in the names of settings stands for a dot."""
    own = {name.replace("_", "."): value for name, value in config.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [NewTopic(name, partitions, 1, config=own) for name in names]
    for created in admin.create_topics(new, request_timeout=_WITHIN_S).values():
        created.result()


def client(**spec: Any) -> "subprocess.Popen[str]":
    """A client on its way; `result` waits for it."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.events", json.dumps(spec)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )


def result(started: "subprocess.Popen[str]") -> dict[str, Any]:
    said, _ = started.communicate()
    assert started.returncode == 0, "a client failed; what it said is above"
    return dict(json.loads(said))


def main() -> None:
    spec = json.loads(sys.argv[1])
    print(json.dumps(ROLES[spec["role"]](spec)), flush=True)
    os._exit(0)  # A client's own goodbye is nothing that is measured.


if __name__ == "__main__":
    main()
