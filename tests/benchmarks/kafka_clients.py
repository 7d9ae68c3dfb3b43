"""The Kafka clients of the ingress benchmarks: librdkafka, each role in a process of its own.

A client connects, warms up, says `ready`, starts when a line comes on its standard input and says
what it measured as one line of JSON. It is the same client for every broker. All clocks are the
host's monotonic one, so that what one process sends and another receives can be compared.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

_STAMP_BYTES: Final = 8
_VALUES: Final = 256
_DOCUMENTS: Final = 8_192
"""More bytes than any codec looks back, so that none finds the same document again."""
_WITHIN_S: Final = 120.0
_SETTLE_S: Final = 1.0

Spec = dict[str, Any]
Result = dict[str, Any]


def values(size: int) -> list[bytes]:
    """Values that compress to about half, as text does: hexadecimal digits at random."""
    random = Random(size)
    return [random.randbytes(size // 2 + 1).hex().encode()[:size] for _ in range(_VALUES)]


def documents(size: int) -> list[bytes]:
    """JSON events with names, words and numbers, padded to about this size."""
    random = Random(size)
    made = []
    for number in range(_DOCUMENTS):
        event: dict[str, Any] = {
            "id": random.getrandbits(64),
            "user": f"user-{random.randrange(10**7):07d}",
            "session": random.randbytes(12).hex(),
            "type": random.choice(("view", "click", "buy", "search")),
            "country": random.choice(("DE", "FR", "US", "BR", "IN", "JP")),
            "price": round(random.random() * 1000, 2),
            "agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
            "items": [],
        }
        while len(json.dumps(event)) < size - 60:
            item = {"sku": f"sku-{random.randrange(10**6)}", "count": random.randrange(9)}
            event["items"].append(item | {"price": round(random.random() * 100, 2)})
        made.append(json.dumps(event | {"n": number}).encode().ljust(size)[:size])
    return made


def produce(spec: Spec) -> Result:
    """Send `count` records as fast as they are taken; all must be acknowledged."""
    failed: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer(_producing(spec) | {"delivery.report.only.error": True})
    made = documents if spec.get("json") else values
    chunk = [{"value": value} for value in made(spec["size"])]
    _warm_up(producer, spec)
    began = _started()
    left = spec["count"]
    while left > 0:
        taken = producer.produce_batch(spec["topic"], chunk[:left], on_delivery=delivered)
        left -= taken
        producer.poll(0 if taken else 0.01)  # Nothing taken: the queue is full.
    unsent = producer.flush(_WITHIN_S)
    wall = (began, time.monotonic())
    assert not unsent, f"{unsent} records were not acknowledged"
    assert not failed, failed[:3]
    return {"began": wall[0], "ended": wall[1], "records": spec["count"]}


def pace(spec: Spec) -> Result:
    """Send at a fixed rate for `seconds`; the milliseconds from the call to each acknowledgement.

    A record's clock starts when it was due, so a client or broker that falls behind is seen.
    """
    acks: list[float] = []
    failed: list[str] = []

    def deliver(due: float) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, _: Message) -> None:
            acks.append((time.monotonic() - due) * 1_000)
            if error is not None:
                failed.append(str(error))

        return delivered

    producer = Producer(_producing(spec))
    padding = values(spec["size"])[0][_STAMP_BYTES:]
    _warm_up(producer, spec)
    began = _started()
    total = int(spec["rate"] * (spec["seconds"] + _SETTLE_S))
    for number in range(total):
        due = began + number / spec["rate"]
        while (wait := due - time.monotonic()) > 0:
            producer.poll(wait)
        stamped = int(due * 1e9).to_bytes(_STAMP_BYTES, "big") + padding
        producer.produce(spec["topic"], stamped, on_delivery=deliver(due))
        producer.poll(0)
    assert not producer.flush(_WITHIN_S), "records were not acknowledged"
    assert not failed, failed[:3]
    return {"ms": acks[int(spec["rate"] * _SETTLE_S) :]}


def consume(spec: Spec) -> Result:
    """Read `count` records, the same ones `times` over, each time by a consumer of its own.

    Its clock runs from the first fetch to the last record, without connecting and closing.
    """
    _started()
    seconds = 0.0
    for _ in range(spec["times"]):
        consumer = _consumer(spec)
        consumer.list_topics(spec["topic"], timeout=_WITHIN_S)
        began = time.monotonic()
        _assign(consumer, spec, 0)
        pending = spec["count"]
        while pending > 0:
            pending -= len(consumer.consume(min(pending, 10_000), 1.0))
            assert time.monotonic() < began + _WITHIN_S, f"{pending} records did not come"
        seconds += time.monotonic() - began
        consumer.close()
    return {"seconds": seconds, "bytes": spec["times"] * spec["count"] * spec["size"]}


def replay(spec: Spec) -> Result:
    """Read everything from the first offset on, over and over for `seconds`.

    With the lowest priority: it stands for a client on a machine of its own.
    """
    os.nice(19)
    began = _started()
    records = 0
    while time.monotonic() < began + spec["seconds"] + _SETTLE_S:
        consumer = _consumer(spec)
        _assign(consumer, spec, 0)
        pending = spec["count"]
        while pending > 0 and time.monotonic() < began + spec["seconds"] + _SETTLE_S:
            found = len(consumer.consume(min(pending, 10_000), 0.5))
            pending, records = pending - found, records + found
        consumer.close()
    return {"seconds": time.monotonic() - began, "bytes": records * spec["size"]}


def follow(spec: Spec) -> Result:
    """Read what `pace` sends, from the end on; the milliseconds from due to received."""
    consumer = _consumer(spec)
    _assign(consumer, spec, -1)
    consumer.poll(_SETTLE_S)
    began = _started()
    latencies: list[float] = []
    wanted = int(spec["rate"] * (spec["seconds"] + _SETTLE_S))
    while len(latencies) < wanted:
        message = consumer.poll(1.0)
        assert time.monotonic() < began + _WITHIN_S, f"{len(latencies)} of {wanted} came"
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        value = message.value()
        sent = int.from_bytes((value or b"")[:_STAMP_BYTES], "big") / 1e9
        latencies.append((time.monotonic() - sent) * 1_000)
    consumer.close()
    return {"ms": latencies[int(spec["rate"] * _SETTLE_S) :]}


ROLES: Final[Mapping[str, Callable[[Spec], Result]]] = {
    each.__name__: each for each in (produce, pace, consume, replay, follow)
}


def _producing(spec: Spec) -> dict[str, Any]:
    return {
        "bootstrap.servers": spec["bootstrap"],
        "acks": "all",
        "enable.idempotence": spec.get("idempotent", True),
        "compression.type": spec.get("codec", "none"),
        "max.in.flight": 5,
        "queue.buffering.max.messages": 1_000_000,
        "queue.buffering.max.kbytes": 64 * 1024,
        **spec.get("producer", {}),
    }


def _consumer(spec: Spec) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": spec["bootstrap"],
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.error.backoff.ms": 10,
            **spec.get("consumer", {}),
        }
    )


def _assign(consumer: Consumer, spec: Spec, offset: int) -> None:
    consumer.assign(
        [TopicPartition(spec["topic"], index, offset) for index in range(spec["partitions"])]
    )


def _warm_up(producer: Producer, spec: Spec) -> None:
    """Connections, metadata and the producer id, on a topic that nobody measures."""
    producer.list_topics(spec["topic"], timeout=_WITHIN_S)
    producer.produce(spec["warm_up"], b"")
    assert not producer.flush(_WITHIN_S), "the warm-up was not acknowledged"


def _started() -> float:
    print("ready", flush=True)
    sys.stdin.readline()
    return time.monotonic()


def main() -> None:
    spec = json.loads(sys.argv[1])
    result = ROLES[spec["role"]](spec)
    print(json.dumps(result), flush=True)
    os._exit(0)  # A client's own goodbye is nothing that is measured.


if __name__ == "__main__":
    main()
