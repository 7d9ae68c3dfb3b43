"""Records on their way to a broker.

What always holds: whatever ends the sending, what was taken until then is waited for, and it is
told how much of it was acknowledged.
"""

import time
from collections.abc import Iterator
from typing import Any, Final

import click
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lakestream_spark.cli.record_lines import Line
from lakestream_spark.core.errors import Rejected, Unavailable

_FLUSH_S: Final = 60.0
_LOOK_S: Final = 0.2
"""How long a Ctrl-C waits for the client, which hears of none by itself."""
_LARGEST_BYTES: Final = 100_000_000
"""Below what a broker reads of a request. How large a record may be, the topic says."""


def send(sender: "Sender", records: Iterator[Line], partition: int | None) -> int:
    """How many were acknowledged, which is all; raises what came between."""
    try:
        for record in records:
            where = record.partition if record.partition >= 0 or partition is None else partition
            sender.take(record, where)
            if sender.failure is not None:
                break
        sender.flush()
    except Rejected as error:
        raise Rejected(f"{error.message}{_before(sender)}", **error.facts) from error
    except BaseException:
        _tell_the_rest(sender)
        raise
    sender.check()
    return sender.done


def _tell_the_rest(sender: "Sender") -> None:
    try:
        sender.flush()
    finally:
        lost = f", {sender.left} are open" if sender.left else ""
        click.echo(f"{sender.done} records acknowledged{lost}", err=True)


def _before(sender: "Sender") -> str:
    if not sender.taken:
        return ""
    sender.flush()
    if sender.done == sender.taken:
        return f"; the {sender.done} lines before it were acknowledged"
    return f"; of the {sender.taken} lines before it {sender.done} were acknowledged"


class Sender:
    """A client of the brokers at an address, for one topic."""

    def __init__(self, address: str, topic: str, compression: str) -> None:
        self._topic = topic
        self._producer = _producer(address, compression)
        self.taken = 0
        self.done = 0
        """How many were acknowledged."""
        self.failure: KafkaError | None = None
        """Why the first record that failed was not."""

    @property
    def left(self) -> int:
        """How many were taken, and nobody knows what became of them."""
        return len(self._producer)

    def take(self, record: Line, partition: int) -> None:
        """Hand a record over, as soon as there is room for it."""
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    record.value,
                    record.key,
                    partition,
                    on_delivery=self._delivered,
                    timestamp=record.timestamp,
                    headers=record.headers,
                )
                break
            except BufferError:
                self._producer.poll(_LOOK_S)
            except KafkaException as error:
                self.failure = error.args[0]
                return
        self.taken += 1
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until it is known of all that were taken, but not for ever."""
        until = time.monotonic() + _FLUSH_S
        while self.left and time.monotonic() < until:
            self._producer.flush(_LOOK_S)

    def check(self) -> None:
        """Raise unless all that was taken is acknowledged."""
        if self.failure is not None:
            if self.failure.code() == KafkaError._MSG_TIMED_OUT:
                raise Unavailable(
                    f"the brokers did not answer in time; {self.done} records were acknowledged",
                    topic=self._topic,
                )
            raise Rejected(
                f"a record was refused: {self.failure.str()}; {self.done} were acknowledged before",
                topic=self._topic,
            )
        if self.left:
            raise Unavailable(
                "not all records were acknowledged in time", open=self.left, done=self.done
            )

    def _delivered(self, error: Any, message: Message) -> None:  # noqa: ARG002
        if error is None:
            self.done += 1
        elif self.failure is None:
            self.failure = error


def _producer(address: str, compression: str) -> Producer:
    try:
        return Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "compression.type": compression,
                "linger.ms": 20,
                "message.timeout.ms": 60_000,
                "message.max.bytes": _LARGEST_BYTES,
                "log_level": 0,
            }
        )
    except KafkaException as error:
        raise Rejected(f"the client takes no such option: {error.args[0].str()}") from error
