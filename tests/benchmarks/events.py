"""JSON events of about 200 bytes, and the clients that send them, each in a process.

    python -m tests.benchmarks.events '{"role": "fill", ...}'

Batches are made once (lz4, as a busy librdkafka makes them) and sent over bare connections: a
client that makes every record anew takes more of the machine than what is measured. The same bytes
go to every broker. All clocks are the host's monotonic one, so that what one process sends and
another sees can be compared.
"""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import Record, encode_batch
from tests.support.wire import Wire

EVENT_BYTES: Final = 200
_DISTINCT: Final = 200_000
_FILL_RECORDS: Final = 5_000
_RECORDS_PER_MS: Final = 100
_FIRST_MS: Final = 1_700_000_000_000
_TICK_S: Final = 0.01
_WITHIN_S: Final = 600.0
_CONNECTIONS: Final = 4
_IN_FLIGHT: Final = 16
_PRODUCE: Final = 0
_VERSION: Final = 9

Spec = dict[str, Any]


class Batch(NamedTuple):
    """A batch as it is sent, with the bytes of its keys and values."""

    data: bytes
    bytes: int
    records: int


def batches(records: int, distinct: int = _DISTINCT) -> list[Batch]:
    """More events than a row group has, so that no writer finds the same value twice in one."""
    source = random.Random(7)
    made = [(b"user-%07d" % number, _value(source)) for number in range(distinct)]
    return [_batch(made[first : first + records]) for first in range(0, distinct, records)]


def _batch(made: Sequence[tuple[bytes, bytes]]) -> Batch:
    records = [
        Record(number, _FIRST_MS + number // _RECORDS_PER_MS, key, value)
        for number, (key, value) in enumerate(made)
    ]
    size = sum(len(key) + len(value) for key, value in made)
    return Batch(encode_batch(records, codec=Codec.LZ4), size, len(made))


def _value(source: random.Random) -> bytes:
    event = source.choice(("view", "click", "buy", "search"))
    country = source.choice(("DE", "FR", "US", "BR", "IN", "JP"))
    time_ms = _FIRST_MS + source.randrange(10**7)
    return (
        f'{{"time":{time_ms},"user":{source.randrange(10**9)},'
        f'"session":"{source.getrandbits(96):024x}","event":"{event}","country":"{country}",'
        f'"price":{source.random():.6f},"page":"/shop/item/{source.randrange(10**6)}",'
        f'"agent":"Mozilla/5.0 (X11; Linux x86_64)"}}'
    ).encode()


class Sender:
    """One connection with many requests on their way; acknowledgements come in order."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._room = asyncio.Semaphore(_IN_FLIGHT)
        self._sent: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())
        self.acks: list[tuple[int, int, float]] = []

    @classmethod
    async def connect(cls, bootstrap: str) -> "Sender":
        return cls(await Wire.connect(int(bootstrap.rpartition(":")[2])))

    async def send(self, topic: str, partition: int, batch: Batch) -> None:
        await self._room.acquire()
        if self._reading.done():
            self._reading.result()
        self._sent.put_nowait((partition, batch.records))
        await self._wire.send(_request(topic, partition, batch.data))

    async def close(self) -> None:
        """Everything that was sent is acknowledged."""
        async with asyncio.timeout(_WITHIN_S):
            joined = asyncio.create_task(self._sent.join())
            await asyncio.wait([joined, self._reading], return_when=asyncio.FIRST_COMPLETED)
            if self._reading.done():
                self._reading.result()
        self._reading.cancel()
        await self._wire.close()

    async def _read(self) -> None:
        while True:
            partition, records = await self._sent.get()
            _, body = await self._wire.receive(_PRODUCE, _VERSION)
            answer = body.responses[0].partition_responses[0]
            assert answer.error_code is ErrorCode.none, answer
            last = answer.base_offset + records - 1
            self.acks.append((partition, last, time.monotonic()))
            self._sent.task_done()
            self._room.release()


def _request(topic: str, partition: int, data: bytes) -> Any:
    made = load_payload_module(_PRODUCE, _VERSION, EntityType.request)
    records = made.PartitionProduceData(index=partition, records=data)
    return made.ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout=timedelta(seconds=30),
        topic_data=(made.TopicProduceData(name=topic, partition_data=(records,)),),
    )


async def fill(spec: Spec) -> dict[str, Any]:
    """Send `count` events as fast as they are taken, evenly to the partitions."""
    made = batches(_FILL_RECORDS)
    sender = await Sender.connect(spec["bootstrap"])
    size = sent = 0
    for number in count():
        if sent >= spec["count"]:
            break
        batch = made[number % len(made)]
        await sender.send(spec["topic"], number % spec["partitions"], batch)
        size, sent = size + batch.bytes, sent + batch.records
    await sender.close()
    return {"bytes": size, "records": sent}


async def flow(spec: Spec) -> dict[str, Any]:
    """Send `bytes_per_s` for `seconds` to every topic and partition in turn; of every batch the
    partition, the last offset and the time of its acknowledgement."""
    made = batches(max(1, int(spec["bytes_per_s"] * _TICK_S / EVENT_BYTES)))
    senders = [await Sender.connect(spec["bootstrap"]) for _ in range(_CONNECTIONS)]
    places = [(t, p) for p in range(spec["partitions"]) for t in spec["topics"]]
    began, size, sent = time.monotonic(), 0, 0
    for number in count():
        due = began + number * _TICK_S
        if due > began + spec["seconds"]:
            break
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        batch = made[number % len(made)]
        place = number % len(places)
        await senders[place % _CONNECTIONS].send(*places[place], batch)
        size, sent = size + batch.bytes, sent + batch.records
    for sender in senders:
        await sender.close()
    acks = [ack for sender in senders for ack in sender.acks]
    took = time.monotonic() - began
    return {"bytes": size, "records": sent, "seconds": took, "acks": acks}


ROLES: Final[Mapping[str, Callable[[Spec], Coroutine[Any, Any, dict[str, Any]]]]] = {
    "fill": fill,
    "flow": flow,
}


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
    print(json.dumps(asyncio.run(ROLES[spec["role"]](spec))), flush=True)


if __name__ == "__main__":
    main()
