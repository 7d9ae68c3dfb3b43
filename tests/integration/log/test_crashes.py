"""Real crashes: writers are killed with SIGKILL at random points, again and again.

Two clients write through two brokers into two topics (one per profile), with five batches of each
producer in flight, while the table's end moves, segments are reclaimed and evacuated, and consumers
follow every partition. After each death a new process takes the broker id and resends what had no
answer. In the end every acknowledged record is there once, where the answer said, in order.
"""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pytest

from tests.integration.log.conftest import Backend
from tests.support.checker import Poll, anomalies
from tests.support.crash_writer import DRAINED, FENCED, PROFILES, Journals, open_stores
from tests.support.log import Log, in_background, open_log
from tests.support.writer_processes import Nursery, WriterProcess

CLIENTS: Final = ("anna", "bert")
BROKERS: Final = (1, 2)
KILLED: Final = -9


class Running(NamedTuple):
    """A client's present life."""

    broker: int
    writer: WriterProcess
    journal: Path

    def is_writing(self) -> bool:
        """Whether it is past its start: then a new registration is surely later than its own."""
        return self.journal.exists() and self.journal.stat().st_size > 0


class Chaos:
    """Keeps one or two writers running and takes their lives."""

    def __init__(
        self, nursery: Nursery, backend: Backend, journals: Path, producers: dict[str, list[str]]
    ) -> None:
        self._nursery = nursery
        self._backend = backend
        self._journals = journals
        self._producers = producers
        self._lives = 0
        self.running: dict[str, Running] = {}
        self.counts: Counter[str] = Counter()

    async def start(self, client: str, broker: int, *flags: str) -> WriterProcess:
        self._lives += 1
        writer = await self._nursery.start(
            [
                *("--store", self._backend.store_url),
                *("--store-options", self._backend.store_options),
                *("--metadata", self._backend.metadata_url),
                *("--broker", str(broker), "--client", client, "--life", str(self._lives)),
                *("--journals", str(self._journals)),
                *(f"--producer={producer}" for producer in self._producers[client]),
                *flags,
            ]
        )
        self.running[client] = Running(broker, writer, self._journals / f"{client}.{self._lives}")
        return writer

    def free_brokers(self) -> list[int]:
        taken = {each.broker for each in self.running.values()}
        return [broker for broker in BROKERS if broker not in taken]

    async def wait_for_a_blow(self, random: Random) -> None:
        """Often enough a writer dies while it starts; mostly in full flight, however slow it is."""
        if random.random() < 0.3:
            await asyncio.sleep(random.uniform(0.0, 0.15))
            return
        async with asyncio.timeout(120):
            while not any(each.is_writing() for each in self.running.values()):
                await asyncio.sleep(0.01)
        await asyncio.sleep(random.uniform(0.15, 0.6))

    async def strike(self, random: Random) -> None:
        """One blow at one writer, then what a supervisor would do."""
        client = random.choice(list(self.running))
        broker, writer, _ = self.running[client]
        assert writer.alive, f"{client} ended by itself with {writer.exited.result()}"
        if random.random() < 0.1 and self.running[client].is_writing():
            await self._replace_a_sleeper(client, broker, writer)
            return
        assert await writer.kill() == KILLED
        del self.running[client]
        self.counts["killed"] += 1
        if self.running and random.random() < 0.2:
            return  # One is enough for a while.
        for name in [client, *CLIENTS] if random.random() < 0.6 else [client]:
            if name not in self.running:
                # Usually its old broker id; sometimes the client finds another broker.
                free = self.free_brokers()
                again = broker in free and name == client and random.random() < 0.75
                await self.start(
                    name,
                    broker if again else random.choice(free),
                    f"--reply-delay-ms={random.choice([0, 0, 20])}",
                )

    async def _replace_a_sleeper(self, client: str, broker: int, writer: WriterProcess) -> None:
        """Its successor starts while it sleeps; once it wakes it must find that it is fenced."""
        writer.fall_asleep()
        await self.start(client, broker)
        await asyncio.sleep(0.2)
        writer.wake_up()
        assert await writer.ended() == FENCED
        self.counts["fenced"] += 1

    async def drain(self) -> None:
        """Kill all, then let each client resend what is left and end in peace."""
        for client, each in list(self.running.items()):
            assert await each.writer.kill() == KILLED
            del self.running[client]
        for client in CLIENTS:
            writer = await self.start(client, self.free_brokers()[0], "--drain")
            assert await writer.ended() == DRAINED


async def _producers(log: Log) -> dict[str, list[str]]:
    """Each client has a producer of its own on every partition."""
    return {
        client: [
            f"{profile}/{topic.id}-{index}/{await log.metadata.producers.allocate()}"
            for profile, topic in zip(PROFILES, log.topics, strict=True)
            for index in range(topic.partitions)
        ]
        for client in CLIENTS
    }


@pytest.mark.timeout(900, func_only=True)
@pytest.mark.parametrize("kills", [50, pytest.param(500, marks=pytest.mark.slow)])
async def test_everything_acknowledged_survives_many_kills_once_and_in_order(
    kills: int, backend: Backend, tmp_path: Path, random: Random
):
    journals = tmp_path / "journals"
    journals.mkdir()
    stores = open_stores(backend.store_url, backend.store_options)
    async with open_log(backend.metadata_url, stores) as log, Nursery() as nursery:
        await log.create_topics("orders", "clicks", partitions=3)
        await log.start_reclaim()
        chaos = Chaos(nursery, backend, journals, await _producers(log))
        polls = [Poll(str(partition), []) for partition in log.partitions]
        async with in_background(
            log.keep_house(Random(random.random())),
            *(log.follow(*each) for each in zip(log.partitions, polls, strict=True)),
        ) as still_fine:
            await chaos.start(CLIENTS[0], BROKERS[0])
            killed = 0
            # Where a blow falls is luck: go on until every kind has hit, but not for ever.
            while killed < kills or (killed < 6 * kills and not _hit(log, Journals(journals))):
                await chaos.wait_for_a_blow(random)
                await chaos.strike(random)
                still_fine()
                killed = chaos.counts["killed"]
            await chaos.drain()
        await _check(log, Journals(journals), polls, chaos)


def _hit(log: Log, journals: Journals) -> bool:
    """Whether a crash fell between an upload and its commit, and one before a commit's answer."""
    return log.orphans > 0 and bool(journals.notes()["duplicate"])


async def _check(log: Log, journals: Journals, polls: list[Poll], chaos: Chaos) -> None:
    history = journals.history()
    history.polls = polls
    final = await log.read_all()
    assert anomalies(history, final) == []
    notes = journals.notes()
    assert not notes["failed"] + notes["refused"], notes
    unanswered = {send.values for send in history.sends} - {ack.values for ack in history.acks}
    await log.assert_no_garbage()
    assert await log.read_all() == final
    resent = len(notes["duplicate"])
    print(
        f"{dict(chaos.counts)}; {len(history.acks)} batches acknowledged, {len(unanswered)} never; "
        f"{resent} resent after their commit; {sum(map(len, final.values()))} records, "
        f"{sum(map(len, log.table.values()))} of them in the table; {log.orphans} orphans, "
        f"{log.deleted} segments deleted, {log.evacuated} evacuated, "
        f"{log.dropped} reclaimers dropped"
    )
    # Blows that hit nothing prove nothing.
    assert history.acks
    assert resent, "no crash fell between a commit and its answer"
    assert log.orphans, "no crash fell between an upload and its commit"
    assert log.deleted
    assert log.commits
