"""What the shop invents, sent by a stock Kafka client (librdkafka) at a steady pace.

What always holds: an order is billed once it is acknowledged, so a payment is sent after its order
has an offset; a record that is refused ends the traffic with the reason.
"""

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import blake2b
from threading import Event, Thread
from typing import Any, Final, NamedTuple

from confluent_kafka import Message, Producer

from lakestream_spark.cli.demo.shop import Record, Shop
from lakestream_spark.core.errors import Unavailable

ORDERS_PER_SECOND: Final = 16.0
_STEP_S: Final = 0.05
_ANSWER_S: Final = 20.0
_FLUSH_S: Final = 0.2
_REMEMBERED: Final = 20_000
_MISSED_S: Final = 1.0


class Place(NamedTuple):
    """Where a record is in the stream."""

    topic: str
    partition: int
    offset: int


class FirstAnswer(NamedTuple):
    """The first record that was acknowledged, and how long that took."""

    place: Place
    seconds: float


class Traffic:
    """Runs in a thread from `start` to `stop`."""

    def __init__(self, bootstrap: str, shop: Shop) -> None:
        self._shop = shop
        self._stop = Event()
        self._thread = Thread(target=self._run, name="traffic", daemon=True)
        self.sent: Counter[str] = Counter()
        self.acknowledged: Counter[str] = Counter()
        self.first: FirstAnswer | None = None
        self.begins: dict[tuple[str, int], int] = {}
        """The first offset of each partition that a record of this traffic got."""
        self.digests: dict[Place, bytes] = {}
        """Of the first records that were acknowledged."""
        self._refused: str | None = None
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "lakestream-demo",
                "enable.idempotence": True,
                "linger.ms": 20,
                "compression.type": "lz4",
                "message.timeout.ms": int(1000 * _ANSWER_S),
                "log_level": 0,
            }
        )

    def start(self) -> None:
        self._thread.start()

    def check(self) -> None:
        """Raises why a record was not acknowledged."""
        if self._refused is not None:
            raise Unavailable(f"a record was not acknowledged: {self._refused}")

    def stop(self, given_up: Callable[[], bool]) -> None:
        """No more; waits until all that was sent is acknowledged, and raises if it is not."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        deadline = time.monotonic() + _ANSWER_S
        while (left := self._producer.flush(_FLUSH_S)) and time.monotonic() < deadline:
            if given_up():
                return
        self.check()
        if left:
            raise Unavailable(f"{left} records were not acknowledged within {_ANSWER_S:.0f} s")

    def _run(self) -> None:
        due_s = time.monotonic()
        while not self._stop.is_set() and self._refused is None:
            # After a pause (a laptop that slept) customers do not order what they missed.
            due_s = max(due_s, time.monotonic() - _MISSED_S)
            while due_s <= time.monotonic():
                self._order()
                due_s += 1 / ORDERS_PER_SECOND
            for payment in self._shop.payments(datetime.now(UTC)):
                self._send(payment)
            self._producer.poll(0)
            self._stop.wait(_STEP_S)

    def _order(self) -> None:
        order = self._shop.order(datetime.now(UTC))
        self._send(order.record, lambda: self._shop.bill(order, datetime.now(UTC)))

    def _send(self, record: Record, then: Callable[[], None] = lambda: None) -> None:
        began = time.monotonic()

        def answered(error: Any, message: Message) -> None:
            if error is not None:
                self._refused = error.str()
                return
            self._remember(record, message, time.monotonic() - began)
            then()

        self._producer.produce(
            record.topic,
            record.value,
            record.key,
            headers=list(record.headers),
            on_delivery=answered,
        )
        self.sent[record.topic] += 1

    def _remember(self, record: Record, message: Message, seconds: float) -> None:
        place = Place(record.topic, message.partition() or 0, message.offset() or 0)
        self.first = self.first or FirstAnswer(place, seconds)
        # Before the count: whoever reads the count first finds where all of them are.
        self.begins.setdefault((place.topic, place.partition), place.offset)
        self.acknowledged[record.topic] += 1
        if len(self.digests) < _REMEMBERED:
            self.digests[place] = digest(record.key, record.value, record.headers)


def digest(key: bytes | None, value: bytes | None, headers: Any) -> bytes:
    """Tells records apart by everything that their sender gave."""
    whole = repr((key, value, [tuple(each) for each in headers or ()]))
    return blake2b(whole.encode(), digest_size=16).digest()
