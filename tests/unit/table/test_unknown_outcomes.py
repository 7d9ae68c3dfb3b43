"""Commits that go wrong in the catalog, committers that race, and one that sleeps too long."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event

import pytest
from pyiceberg.table import CommitTableResponse

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Fenced, OutcomeUnknown, Transient, Unavailable
from lakestream_spark.core.retry import Backoff
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.append import Verdict
from lakestream_spark.table.commit import TableCommitter, lease_name
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.embedded import catalog_spec
from tests.support.faulty_catalog import (
    Call,
    Fault,
    FaultyCatalog,
    answers_conflict_to_its_own_repetition,
    commits_and_raises,
    faulty,
    raises_before,
    times_out_after_the_commit,
)
from tests.support.stream_tables import StreamTable
from tests.support.tables import TableFiles, acknowledge, rows

PATIENT = Backoff(first_s=0.001, cap_s=0.001, total_s=60.0)
RANGES = [PlannedRange(0, 0, 3)]
VALUES = [b"a", b"b", b"c"]
FAULTS = [
    commits_and_raises,
    raises_before,
    times_out_after_the_commit,
    answers_conflict_to_its_own_repetition,
]


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[StreamCatalog]:
    opened = StreamCatalog.open(faulty(catalog_spec(tmp_path)))
    yield opened
    opened.close()


@pytest.fixture
def catalog(tables: StreamCatalog) -> FaultyCatalog:
    assert isinstance(tables._catalog, FaultyCatalog)
    return tables._catalog


@pytest.fixture
def stream(tmp_path: Path, tables: StreamCatalog) -> StreamTable:
    made = StreamTable.new(tmp_path, tables, "orders")
    made.append(1)
    return made


@pytest.mark.parametrize("fault", FAULTS)
def test_repeated_append_is_in_the_table_once_whatever_the_catalog_answered(
    stream: StreamTable, catalog: FaultyCatalog, fault: Fault
) -> None:
    append = stream.next_append(2)
    catalog.faults = [fault]
    with pytest.raises((OutcomeUnknown, Unavailable)):
        stream.tables.append(stream.files.layout, append)
    again = stream.tables.append(stream.files.layout, append)
    assert again is (Verdict.APPLY if fault is raises_before else Verdict.ALREADY_DONE)
    assert stream.tables.append(stream.files.layout, append) is Verdict.ALREADY_DONE
    assert stream.offsets() == [0, 1, 2]


@pytest.mark.parametrize("fault", FAULTS)
async def test_committer_asks_until_it_knows(
    metadata: Metadata, topic: Topic, tables: StreamCatalog, tmp_path: Path, fault: Fault
) -> None:
    await acknowledge(metadata, topic, VALUES)
    files = TableFiles.of(tmp_path, tables, topic)
    tables.load_or_create(files.layout)
    assert isinstance(tables._catalog, FaultyCatalog)
    tables._catalog.faults = [raises_before, fault]
    lease = await taken(metadata, topic, "first")
    committer = committer_on(metadata, tables)
    await committer.commit(lease, topic, 1, RANGES, [files.write(rows(0, VALUES))])
    assert StreamTable(tables=tables, files=files).offsets() == [0, 1, 2]
    assert (await metadata.tables.ends(topic.id))[0].table_end == 3


def committer_on(metadata: Metadata, tables: StreamCatalog) -> TableCommitter:
    return TableCommitter(
        metadata.tables, tables, clock=SystemClock(), random=Random(1), backoff=PATIENT
    )


async def taken(metadata: Metadata, topic: Topic, holder: str) -> Lease:
    lease = await metadata.leases.try_acquire(lease_name(topic.id), holder, 0.0)
    lease = lease or await metadata.leases.try_acquire(lease_name(topic.id), holder, 0.0)
    assert lease is not None
    return lease


async def test_zombie_that_resumes_inside_its_commit_changes_nothing(
    metadata: Metadata, topic: Topic, tables: StreamCatalog, tmp_path: Path
) -> None:
    """Its intent is carried out by the next holder, who goes on; then the zombie wakes up."""
    await acknowledge(metadata, topic, VALUES)
    files = TableFiles.of(tmp_path, tables, topic)
    tables.load_or_create(files.layout)
    asleep, wake = Event(), Event()

    def sleep(call: Call) -> CommitTableResponse:
        asleep.set()
        assert wake.wait(100)
        return call()

    assert isinstance(tables._catalog, FaultyCatalog)
    tables._catalog.faults = [sleep]
    old = await taken(metadata, topic, "zombie")
    work = committer_on(metadata, tables).commit(
        old, topic, 1, RANGES, [files.write(rows(0, VALUES))]
    )
    zombie = asyncio.create_task(work)
    assert await asyncio.to_thread(asleep.wait, 100)
    others = StreamCatalog.open(catalog_spec(tmp_path))
    await committer_on(metadata, others).recover(await taken(metadata, topic, "heir"), topic)
    assert (await metadata.tables.ends(topic.id))[0].table_end == 3
    wake.set()
    with pytest.raises(Fenced):
        await zombie
    stream = StreamTable(tables=others, files=files)
    assert stream.offsets() == [0, 1, 2]
    assert await metadata.tables.intent(topic.id) is None
    others.close()


def test_catalog_that_cannot_be_reached_is_an_outage(
    stream: StreamTable, catalog: FaultyCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = stream.next_append(1)

    def refused(*_: object) -> None:
        raise ConnectionRefusedError("nobody is there")

    with monkeypatch.context() as patch:
        patch.setattr(catalog, "load_table", refused)
        with pytest.raises(Unavailable, match="does not answer"):
            stream.tables.append(stream.files.layout, append)
    assert stream.tables.append(stream.files.layout, append) is Verdict.APPLY


def test_commit_whose_snapshot_expired_is_found_by_the_table_property(
    stream: StreamTable,
) -> None:
    append = stream.next_append(2)
    stream.tables.append(stream.files.layout, append)
    mine = stream.load().current_snapshot()
    assert mine is not None
    stream.load().delete("__offset = 0")
    stream.load().maintenance.expire_snapshots().by_id(mine.snapshot_id).commit()
    assert stream.tables.append(stream.files.layout, append) is Verdict.ALREADY_DONE
    assert stream.offsets() == [1, 2]


@pytest.mark.long
@pytest.mark.timeout(400)
def test_two_processes_that_race_for_every_commit_add_each_offset_once(
    tmp_path: Path, stream: StreamTable
) -> None:
    up_to = 6
    command = [sys.executable, "-m", "tests.support.table_racer", str(tmp_path)]
    command += [str(stream.files.layout.topic_id), str(up_to)]
    racers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    won = [int(racer.communicate(timeout=180)[0]) for racer in racers]
    assert sum(won) == up_to - 1
    assert stream.offsets() == list(range(up_to))


def test_two_threads_that_commit_from_the_same_start_add_each_offset_once(
    tmp_path: Path, stream: StreamTable, catalog: FaultyCatalog
) -> None:
    mine, theirs = (stream.next_append(2) for _ in range(2))
    others = StreamCatalog.open(catalog_spec(tmp_path))

    def other_is_first(call: Call) -> CommitTableResponse:
        assert others.append(stream.files.layout, theirs) is Verdict.APPLY
        return call()

    catalog.faults = [other_is_first]
    with pytest.raises(Transient, match="changed meanwhile"):
        stream.tables.append(stream.files.layout, mine)
    assert stream.tables.append(stream.files.layout, mine) is Verdict.STALE
    assert stream.offsets() == [0, 1, 2]
    others.close()
