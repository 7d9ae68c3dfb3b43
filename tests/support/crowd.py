"""A crowd of idempotent producers on one writer, and the proof that nothing was lost or doubled."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Self

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.ids import BrokerId
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.ports import Sequencer
from lakestream_spark.wal.receipt import Verdict
from lakestream_spark.wal.writer import FlushPolicy, WalWriter
from tests.support.checker import History, anomalies
from tests.support.idempotent_producer import Appender, IdempotentProducer, MemoryJournal
from tests.support.log import Log

PROFILE = "cost"


@asynccontextmanager
async def open_writer(
    log: Log, policy: FlushPolicy, *, sequencer: Sequencer | None = None, broker: int = 1
) -> AsyncIterator[WalWriter]:
    """A writer of the log's only profile, registered anew."""
    writer = WalWriter(
        await log.metadata.writers.register(BrokerId(broker), PROFILE),
        policy,
        store=log.stores[PROFILE],
        sequencer=sequencer or log.metadata.sequencer,
        cache=WalCache(0),
        clock=SystemClock(),
    )
    async with writer:
        yield writer


class Crowd:
    """Two producers on every partition."""

    def __init__(self, log: Log, producer_ids: list[int], value_bytes: int) -> None:
        self._log = log
        self._value_bytes = value_bytes
        self._numbers = count()
        self.history = History()
        journal = MemoryJournal(self.history)
        partitions = [partition for partition in log.partitions for _ in range(2)]
        self.producers = [
            IdempotentProducer(partition, producer_id, self._new_values, journal)
            for partition, producer_id in zip(partitions, producer_ids, strict=True)
        ]

    @classmethod
    async def gather(cls, log: Log, *, value_bytes: int = 50) -> Self:
        allocate = log.metadata.producers.allocate
        return cls(log, [await allocate() for _ in range(2 * len(log.partitions))], value_bytes)

    def _new_values(self) -> tuple[str, ...]:
        return tuple(f"{next(self._numbers)}.".ljust(self._value_bytes, "x") for _ in range(2))

    @property
    def errors(self) -> Counter[str]:
        return sum((each.errors for each in self.producers), Counter())

    @property
    def verdicts(self) -> Counter[Verdict]:
        return sum((each.verdicts for each in self.producers), Counter())

    @asynccontextmanager
    async def at_work(self, appender: Appender, *, pause_s: float = 0.01) -> AsyncIterator[None]:
        """They send while the body runs; after it they resend until everything is answered."""
        stopping = asyncio.Event()
        async with asyncio.timeout(270), asyncio.TaskGroup() as group:
            for producer in self.producers:
                group.create_task(producer.run(appender, stopping, pause_s=pause_s))
            yield
            stopping.set()

    async def until(self, happened: Callable[[], bool], *, within_s: float = 120.0) -> None:
        deadline = asyncio.get_running_loop().time() + within_s
        while not happened():
            last_errors = {each.last_error for each in self.producers}
            assert asyncio.get_running_loop().time() < deadline, (self.errors, last_errors)
            await asyncio.sleep(0.02)

    async def progress(self, batches: int) -> None:
        """Wait for so many more answers."""
        wanted = len(self.history.acks) + batches
        await self.until(lambda: len(self.history.acks) >= wanted)

    async def assert_sound(self) -> None:
        """Everything sent was answered in the end; it is there once, in its place, in order."""
        final = await self._log.read_all()
        assert anomalies(self.history, final) == []
        sent = {value for send in self.history.sends for value in send.values}
        acked = {value for ack in self.history.acks for value in ack.values}
        assert sent == acked
        assert sum(map(len, final.values())) == len(acked)
