"""A broker's writing half as a program that is made to be killed.

    python -m tests.support.crash_writer --store file:///… --metadata sqlite:///… --broker 1 …

registers as a broker, resumes the producers of one client from the client's journals, and appends
until it is killed (with `--drain`: until everything is answered). Each life writes a journal of its
own: what is about to be sent, what was acknowledged. No fsync: the writer is killed, not the host.

    python -m tests.support.crash_writer --nursery

reads such command lines from its input, as JSON, and forks a process for each: it has everything
imported, so a new writer lives after milliseconds.
"""

import argparse
import asyncio
import gc
import json
import os
import select
import signal
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final
from uuid import UUID

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Fenced, Misconfigured, Transient, first_of
from lakestream_spark.core.ids import BrokerId, TopicId, TopicPartition
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata import postgres as postgres  # the nursery imports it for all
from lakestream_spark.objectstore.open import open_store
from lakestream_spark.objectstore.options import StoreOptions
from lakestream_spark.objectstore.retrying import Retrying
from lakestream_spark.objectstore.store import ObjectStore
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.ports import Sequencer
from lakestream_spark.wal.receipt import SegmentReceipt, Verdict
from lakestream_spark.wal.restored import refuse_restored_metadata
from lakestream_spark.wal.segment import StoredSegment
from lakestream_spark.wal.writer import FlushPolicy, WalWriter
from tests.support.checker import Ack, History, Send
from tests.support.idempotent_producer import IdempotentProducer

PROFILES: Final = ("cost", "latency")
POLICIES: Final = {
    "cost": FlushPolicy(max_age_ms=20, max_bytes=4_000),
    "latency": FlushPolicy(max_age_ms=5, max_uploads=3),
}
DRAINED, FENCED, REFUSED, FAILED = 0, 3, 4, 5
"""How a writer that was not killed ends."""


class FileJournal:
    """One life's journal: a JSON line per event, each written by one system call."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)

    def sending(self, send: Send) -> None:
        self._write("send", *send)

    def acknowledged(self, ack: Ack, verdict: Verdict) -> None:
        self._write("ack", *ack)
        if verdict is Verdict.DUPLICATE:
            self.note("duplicate", ack.sequence)

    def note(self, key: str, value: object) -> None:
        self._write("note", key, value)

    def _write(self, *event: object) -> None:
        os.write(self._fd, json.dumps(event).encode() + b"\n")


class Journals:
    """The journals of all lives of all clients, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self, client: str, life: int) -> FileJournal:
        return FileJournal(self._folder / f"{client}.{life}")

    def history(self, client: str = "*") -> History:
        history = History()
        for kind, *event in self._events(client):
            if kind == "send":
                partition, producer, sequence, values = event
                history.sends.append(Send(partition, producer, sequence, tuple(values)))
            elif kind == "ack":
                partition, producer, sequence, base, values = event
                history.acks.append(Ack(partition, producer, sequence, base, tuple(values)))
        return history

    def notes(self) -> dict[str, list[object]]:
        notes: dict[str, list[object]] = defaultdict(list)
        for kind, *event in self._events("*"):
            if kind == "note":
                notes[event[0]].append(event[1])
        return notes

    def _events(self, client: str) -> Iterator[list[Any]]:
        for path in sorted(self._folder.glob(f"{client}.*"), key=lambda path: int(path.suffix[1:])):
            *lines, _torn = path.read_bytes().split(b"\n")
            yield from map(json.loads, lines)


class SlowReplies:
    """A metadata store that is far away: a commit is done some time before its reply arrives."""

    def __init__(self, sequencer: Sequencer, delay_ms: int) -> None:
        self._sequencer = sequencer
        self._delay_ms = delay_ms

    async def commit(self, segment: StoredSegment) -> SegmentReceipt:
        receipt = await self._sequencer.commit(segment)
        if self._delay_ms:
            await asyncio.sleep(self._delay_ms / 1000)
        return receipt


def parse_partition(text: str) -> TopicPartition:
    topic_id, _, index = text.rpartition("-")
    return TopicPartition(TopicId(UUID(topic_id)), int(index))


def open_stores(url: str, options: str) -> dict[str, ObjectStore]:
    """The store of each profile, below one URL."""
    given = StoreOptions(**json.loads(options))
    return {
        profile: Retrying(open_store(f"{url.rstrip('/')}/{profile}", given)) for profile in PROFILES
    }


def main(argv: Sequence[str]) -> int:
    if list(argv) == ["--nursery"]:
        _nurse()
        return DRAINED
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    parser.add_argument("--store-options", default="{}")
    parser.add_argument("--metadata", required=True)
    parser.add_argument("--broker", type=int, required=True)
    parser.add_argument("--client", required=True)
    parser.add_argument("--life", type=int, required=True)
    parser.add_argument("--journals", type=Path, required=True)
    parser.add_argument("--producer", action="append", default=[], help="profile/partition/id")
    parser.add_argument("--reply-delay-ms", type=int, default=0)
    parser.add_argument("--drain", action="store_true")
    return asyncio.run(_live(parser.parse_args(argv)))


async def _live(args: argparse.Namespace) -> int:
    journals = Journals(args.journals)
    journal = journals.create(args.client, args.life)
    try:
        await _write(args, journals, journal)
    except Fenced as error:
        journal.note("fenced", str(error))
        return FENCED
    except Misconfigured as error:
        journal.note("refused", str(error))
        return REFUSED
    except BaseException:
        journal.note("failed", traceback.format_exc())
        return FAILED
    return DRAINED


async def _write(args: argparse.Namespace, journals: Journals, journal: FileJournal) -> None:
    stores = open_stores(args.store, args.store_options)
    metadata = await _open_patiently(args.metadata)
    async with AsyncExitStack() as stack:
        writers: dict[str, WalWriter] = {}
        for profile, store in stores.items():
            await refuse_restored_metadata(store, metadata.writers)
            identity = await metadata.writers.register(BrokerId(args.broker), profile)
            writers[profile] = WalWriter(
                identity,
                POLICIES[profile],
                store=store,
                sequencer=SlowReplies(metadata.sequencer, args.reply_delay_ms),
                cache=WalCache(0),
                clock=SystemClock(),
            )
            await stack.enter_async_context(writers[profile])
        # After the registration: a sleeping predecessor commits nothing beyond its journal now.
        await _produce(args, journals.history(args.client), journal, writers)
    await metadata.close()


async def _open_patiently(url: str) -> Metadata:
    while True:
        try:
            return await open_metadata(url, clock=SystemClock())
        except Transient:
            await asyncio.sleep(0.05)


async def _produce(
    args: argparse.Namespace, past: History, journal: FileJournal, writers: dict[str, WalWriter]
) -> None:
    stopping = asyncio.Event()
    if args.drain:
        stopping.set()
    random = Random(f"{args.client}/{args.life}")
    try:
        async with asyncio.TaskGroup() as group:
            for lane, text in enumerate(args.producer):
                profile, partition, producer_id = text.split("/")
                new_values = _values(f"{args.client}.{args.life}.{lane}", random)
                producer = IdempotentProducer(
                    parse_partition(partition), int(producer_id), new_values, journal
                )
                _resume(producer, past)
                group.create_task(producer.run(writers[profile], stopping, pause_s=0.01))
    except BaseExceptionGroup as errors:
        fenced = errors.subgroup(Fenced)
        if fenced is None:
            raise
        raise Fenced("this broker was replaced", error=first_of(fenced)) from None


def _values(prefix: str, random: Random) -> Callable[[], tuple[str, ...]]:
    """Unique values, one to four at a time, of different lengths."""
    numbers = count()

    def new_values() -> tuple[str, ...]:
        return tuple(
            f"{prefix}.{next(numbers)}." + "x" * random.randrange(100)
            for _ in range(random.randint(1, 4))
        )

    return new_values


def _resume(producer: IdempotentProducer, past: History) -> None:
    own = (str(producer.partition), producer.producer_id)
    answered = {ack.sequence for ack in past.acks if ack[:2] == own}
    sends: list[Send] = []
    for send in past.sends:
        if send[:2] == own:
            # What a sleeper wrote down after its successor had taken over was never committed.
            while sends and sends[-1].sequence >= send.sequence:
                sends.pop()
            sends.append(send)
    unanswered = [send for send in sends if send.sequence not in answered]
    producer.resume(unanswered, sends[-1].sequence + len(sends[-1].values) if sends else 0)


def _nurse() -> None:
    """Fork a writer per line; say `started pid` and, when it ended, `exited pid status`."""
    gc.freeze()
    pending = b""
    children: set[int] = set()
    while True:
        readable, _, _ = select.select([0], [], [], 0.01 if children else None)
        if readable:
            data = os.read(0, 65_536)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            children.update(_fork(json.loads(line)) for line in lines)
        for pid in list(children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                children.remove(pid)
                _say(f"exited {pid} {os.waitstatus_to_exitcode(status)}")
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _fork(argv: list[str]) -> int:
    pid = os.fork()
    if pid:
        _say(f"started {pid}")
        return pid
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    # Not back into the nursery's loop, whatever happens.
    os._exit(main(argv))


def _say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
