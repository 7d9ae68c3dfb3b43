"""Records as they come, until every partition has ended."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from lakestream_spark.cli.silence import Silence
from lakestream_spark.core.errors import Rejected

_POLL_S: Final = 1.0
_STATISTICS_MS: Final = 1000
_NEVER: Final = 2**63 - 1
_PASSING: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
    }
)


class Arrivals:
    """A consumer of the brokers at an address, and how long it has heard nothing of them."""

    def __init__(self, address: str, silence: Silence) -> None:
        self._silence = silence
        self.consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "lakestream-consume",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                "error_cb": _tried_again,
                "stats_cb": silence.statistics,
                "statistics.interval.ms": _STATISTICS_MS,
            }
        )

    @classmethod
    @contextmanager
    def of(cls, address: str) -> Iterator[Self]:
        made = cls(address, Silence())
        with closing(made.consumer):
            yield made

    def records(
        self, places: Sequence[TopicPartition], *, exits: bool, until: Mapping[int, int]
    ) -> Iterator[Message]:
        """From these places on; a partition ends before its offset in `until`, or with `exits`
        where nothing is left. Raises `Unavailable` when the brokers fall silent."""
        opened = {p.partition for p in places if p.offset < until.get(p.partition, _NEVER)}
        self.consumer.assign([each for each in places if each.partition in opened])
        self._silence.expect(opened)
        while opened:
            message = self._poll()
            if message is None:
                continue
            partition, offset = message.partition() or 0, message.offset() or 0
            if _is_end(message):
                self._silence.at_end(partition)
                is_done = exits or partition in until
            else:
                self._silence.expect([partition])
                bound = until.get(partition, _NEVER)
                if offset < bound:
                    yield message
                is_done = offset + 1 >= bound
            if is_done:
                self._finish(message)
                opened.discard(partition)

    def _finish(self, message: Message) -> None:
        partition = message.partition() or 0
        self._silence.at_end(partition)
        # What is beyond its end is not asked for while the others go on.
        self.consumer.pause([TopicPartition(message.topic() or "", partition)])

    def _poll(self) -> Message | None:
        began = time.monotonic()
        message = self.consumer.poll(_POLL_S)
        self._silence.waited(time.monotonic() - began)
        error = None if message is None else message.error()
        return None if error is not None and passes(error) else message


def passes(error: KafkaError) -> bool:
    """Whether the client tries again by itself; an error of a message never says so."""
    return error.code() in _PASSING


def _is_end(message: Message) -> bool:
    """Whether nothing is left for now; raises `Rejected` where the brokers refuse."""
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    raise Rejected(f"the broker refuses to go on: {error.str()}")


def _tried_again(error: KafkaError) -> None:
    """Says nothing: whether it was in vain, the silence tells."""
