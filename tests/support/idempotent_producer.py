"""An idempotent producer as a Kafka client is one: five batches in flight, resent in order.

What it sends is written to its journal before, what is acknowledged after; so a process that died
can be resumed by another one, with the same producer id and the same sequences.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, Protocol

from lakestream_spark.core.errors import Transient
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.kafka.batch import CheckedBatch
from lakestream_spark.wal.receipt import BatchAnswer, Verdict
from tests.support.batches import checked, make_batch
from tests.support.checker import Ack, History, Send

IN_FLIGHT: Final = 5
_RESEND_PAUSE_S: Final = 0.05


class Journal(Protocol):
    """Where a producer's sends and answers are kept."""

    def sending(self, send: Send) -> None: ...

    def acknowledged(self, ack: Ack, verdict: Verdict) -> None: ...


class Appender(Protocol):
    """A WAL writer, or what stands for one."""

    async def append(
        self, partition: TopicPartition, batches: list[CheckedBatch]
    ) -> list[BatchAnswer]: ...


class MemoryJournal:
    """Fills a history."""

    def __init__(self, history: History) -> None:
        self._history = history

    def sending(self, send: Send) -> None:
        self._history.sends.append(send)

    def acknowledged(self, ack: Ack, verdict: Verdict) -> None:
        self._history.acks.append(ack)


class IdempotentProducer:
    """One producer id on one partition."""

    def __init__(
        self,
        partition: TopicPartition,
        producer_id: int,
        new_values: Callable[[], tuple[str, ...]],
        journal: Journal,
    ) -> None:
        self.partition = partition
        self.producer_id = producer_id
        self._new_values = new_values
        self._journal = journal
        self._unanswered: deque[Send] = deque()
        self._next_sequence = 0
        self.verdicts: Counter[Verdict] = Counter()
        self.errors: Counter[str] = Counter()
        self.last_error = ""

    def resume(self, unanswered: list[Send], next_sequence: int) -> None:
        """Go on where an earlier life of this producer was cut off."""
        self._unanswered = deque(sorted(unanswered, key=lambda send: send.sequence))
        self._next_sequence = next_sequence

    async def run(
        self, appender: Appender, stopping: asyncio.Event, *, pause_s: float = 0.0
    ) -> None:
        """Send until told to stop, then until everything is answered; only `Transient` is borne."""
        flying: dict[asyncio.Task[list[BatchAnswer]], Send] = {}
        try:
            while self._unanswered or not stopping.is_set():
                if not stopping.is_set():
                    self._think_of_more()
                self._launch(appender, flying)
                await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
                if not self._collect(flying):
                    # Nothing new may overtake what must be sent again.
                    while flying:
                        await asyncio.wait(flying)
                        self._collect(flying)
                    await asyncio.sleep(_RESEND_PAUSE_S)
                elif pause_s:
                    await asyncio.sleep(pause_s)
        finally:
            for task in flying:
                task.cancel()
            await asyncio.gather(*flying, return_exceptions=True)

    def _think_of_more(self) -> None:
        while len(self._unanswered) < IN_FLIGHT:
            values = self._new_values()
            send = Send(str(self.partition), self.producer_id, self._next_sequence, values)
            self._journal.sending(send)
            self._unanswered.append(send)
            self._next_sequence += len(values)

    def _launch(
        self, appender: Appender, flying: dict[asyncio.Task[list[BatchAnswer]], Send]
    ) -> None:
        under_way = set(flying.values())
        for send in self._unanswered:
            if send not in under_way:
                batch = make_batch(
                    [value.encode() for value in send.values],
                    producer_id=self.producer_id,
                    epoch=0,
                    sequence=send.sequence,
                )
                flying[asyncio.ensure_future(appender.append(self.partition, checked(batch)))] = (
                    send
                )

    def _collect(self, flying: dict[asyncio.Task[list[BatchAnswer]], Send]) -> bool:
        """Take what was answered; False when something must be sent again."""
        good = True
        for task in [task for task in flying if task.done()]:
            send = flying.pop(task)
            try:
                (answer,) = task.result()
            except Transient as error:
                self.errors[type(error).__name__] += 1
                self.last_error = str(error)
                good = False
                continue
            self.verdicts[answer.verdict] += 1
            if answer.verdict in (Verdict.ACCEPTED, Verdict.DUPLICATE):
                ack = Ack(*send[:3], answer.base_offset, send.values)
                self._journal.acknowledged(ack, answer.verdict)
                self._unanswered.remove(send)
            elif answer.verdict is Verdict.OUT_OF_ORDER:
                good = False
            else:
                raise AssertionError(f"{send} was refused: {answer.verdict.name}")
        return good
