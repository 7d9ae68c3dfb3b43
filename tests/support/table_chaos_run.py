"""The chaos run on tables: brokers, producers, a watcher, a replayer, compactions, and a nemesis.

start ─► strike until time and records are enough ─► heal ─► producers flush ─► jobs stop ─► one
drain ─► the WAL is reclaimed ─► a fresh consumer reads everything from the tables ─► every offset
is in every snapshot at most once, in the newest exactly once, with the value that was sent, and
every topic gets its certificate
"""

import asyncio
import gc
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lakestream_spark.cli.verify import run_verify
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.objectstore.keys import WAL_PREFIX
from lakestream_spark.settings.specs import catalog_spec, wal_stores
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.verify.pinned import Asked
from tests.support.chaos_brokers import some_brokers
from tests.support.chaos_evidence import gather
from tests.support.chaos_run import PROFILES, TOPICS, Clients, Size, read_all
from tests.support.checker import Row
from tests.support.ingress_process import eventually
from tests.support.lake_place import Place
from tests.support.table_chaos_check import TableFindings, check_table
from tests.support.table_chaos_jobs import Jobs
from tests.support.table_chaos_nemesis import TableNemesis

_ROOT: Final = Path(__file__).parents[2]
_BOTH: Final = "iceberg,delta"
_FORMATS: Final = {"orders": _BOTH, "clicks": "iceberg"}
_LAG_MS: Final = {"orders": 1000, "clicks": 2000}
_RECLAIM: Final = ("wal.grace_period_ms=1000", "wal.reclaim_interval_ms=500")
_DRAIN_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Who takes part, and where."""

    place: Place
    nodes: Sequence[int]
    jobs: Jobs
    drain: Sequence[str]
    """The words of a program that moves what is left and ends."""
    session_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """What was wrong, and figures."""

    anomalies: Sequence[str]
    counts: Counter[str]
    seconds: float

    def __str__(self) -> str:
        figures = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        return f"{len(self.anomalies)} anomalies after {self.seconds:.0f} s of chaos; {figures}"


def run_table_chaos(folder: Path, size: Size, random: Random, cast: Cast) -> TableReport:
    """One run; what the clients saw is written to the folder."""
    journals, place, jobs = folder / "journals", cast.place, cast.jobs
    journals.mkdir()
    with some_brokers(place.data, _RECLAIM, cast.nodes, place.conf) as brokers:
        _create_topics(brokers.bootstrap)
        clients = Clients(brokers.bootstrap, journals, size, replays=True)
        with clients.at_work(), jobs.at_work():
            nemesis = TableNemesis(brokers, clients, jobs, random, size.pace, cast.session_s)
            began = time.monotonic()
            nemesis.run(lambda: _goes_on(clients, jobs, size, began))
            took_s = time.monotonic() - began
            clients.end_sending()
            nemesis.heal()
            clients.flush()
            jobs.stop()
            _drain(cast.drain)
            eventually(lambda: _segments(place) == 0, _DRAIN_S)
            final = read_all(brokers.bootstrap)
            records = sum(map(len, final.values()))
            eventually(lambda: clients.watcher.progress >= records, _DRAIN_S)
            replays = sum(seat.progress for seat in clients.replayers)
            # One pass that began after the last blow.
            eventually(lambda: sum(s.progress for s in clients.replayers) > replays + 1, _DRAIN_S)
            clients.stop()
    counts = brokers.counts + nemesis.counts + jobs.counts + jobs.errors()
    anomalies, more = _judge(place, journals, final)
    return TableReport(
        anomalies=[*anomalies, *brokers.complaints()], counts=counts + more, seconds=took_s
    )


def _goes_on(clients: Clients, jobs: Jobs, size: Size, began: float) -> bool:
    jobs.look_after()
    seconds = time.monotonic() - began
    assert seconds < 6 * size.seconds + 600, f"only {clients.acknowledged} records were taken"
    return seconds < size.seconds or clients.acknowledged < size.records


def _create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [
        NewTopic(
            topic,
            count,
            1,
            config={
                "lakestream.profile": PROFILES[topic],
                "lakestream.table.formats": _FORMATS[topic],
                "lakestream.table.lag.ms": str(_LAG_MS[topic]),
            },
        )
        for topic, count in TOPICS.items()
    ]
    for future in admin.create_topics(wanted).values():
        future.result(60)


def _drain(words: Sequence[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=_DRAIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _segments(place: Place) -> int:
    """Objects in the WAL of all profiles."""

    async def count() -> int:
        stores = {spec.url: spec for spec in wal_stores(place.settings).values()}
        return sum([1 for spec in stores.values() async for _ in spec.open().list(WAL_PREFIX)])

    return asyncio.run(count())


def _judge(
    place: Place, journals: Path, final: dict[str, list[Row]]
) -> tuple[list[str], Counter[str]]:
    gc.disable()  # It would walk through hundreds of thousands of rows again and again.
    try:
        evidence = gather(journals)
        anomalies, counts, rows = asyncio.run(_tables(place))
        anomalies += _uncertified(place)
        anomalies += evidence.errors
        anomalies += [f"in the table: {each}" for each in evidence.anomalies(rows)]
        anomalies += [f"by Kafka: {each}" for each in evidence.anomalies(final)]
        differ = [name for name in final if final[name] != rows.get(name, [])]
        anomalies += [f"{name}: the stream and the table differ" for name in differ]
        unseen = evidence.acked_at.keys() - evidence.seen_at.keys()
        anomalies += [f"the watcher never saw {value}" for value in sorted(unseen)[:20]]
        counts["table rows"] = sum(map(len, rows.values()))
        counts["records"] = sum(map(len, final.values()))
        return anomalies, counts + evidence.counts
    finally:
        gc.enable()


def _uncertified(place: Place) -> list[str]:
    """What keeps topics from being certified."""
    found = []
    for name in TOPICS:
        try:
            run_verify(place.settings, name, Asked())
        except LakestreamError as error:
            found.append(f"{name} is not certified: {error}")
    return found


async def _tables(place: Place) -> tuple[list[str], Counter[str], dict[str, list[Row]]]:
    """All topics: anomalies, figures and the rows by partition."""
    settings = place.settings
    metadata = await open_metadata(settings.metadata.url, clock=SystemClock())
    anomalies = [f"problem: {each}" for each in await metadata.problems.list()]
    counts: Counter[str] = Counter()
    rows: dict[str, list[Row]] = {}
    try:
        with closing(StreamCatalog.open(catalog_spec(settings))) as catalog:
            for name in TOPICS:
                found = await _topic(metadata, catalog, name)
                anomalies += [f"{name}: {text}" for text in found.anomalies]
                counts += found.counts
                rows |= {f"{name}-{partition}": own for partition, own in found.rows.items()}
    finally:
        await metadata.close()
    return anomalies, counts, rows


async def _topic(metadata: Metadata, catalog: StreamCatalog, name: str) -> TableFindings:
    topic = await metadata.topics.get(name)
    table = catalog.load(catalog.layout(topic.id, name, topic.config))
    assert table is not None, f"{name} has no table"
    found = check_table(table, has_delta=_FORMATS[name] == _BOTH)
    if await metadata.tables.intent(topic.id) is not None:
        found.anomalies.append("an intent is left")
    for partition, ends in (await metadata.tables.ends(topic.id)).items():
        count = len(found.rows.get(partition, ()))
        if not count == ends.table_end == ends.high_watermark:
            found.anomalies.append(f"partition {partition} has {count} rows and {ends}")
    return found
