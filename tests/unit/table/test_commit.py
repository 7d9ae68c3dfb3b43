from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable

from lakestream_spark.core import metrics
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Fenced, OutcomeUnknown, RedTable, Transient
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.core.retry import Backoff
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.tables import PlannedRange, Quarantined
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table import delta_changes, delta_log
from lakestream_spark.table.append import TableAppend, Verdict
from lakestream_spark.table.columns import OFFSET
from lakestream_spark.table.commit import TableCommitter, lease_name
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.in_step import NOTHING_KNOWN, Known
from lakestream_spark.table.layout import TableLayout
from tests.support.delta_tables import in_delta
from tests.support.stream_tables import append_of, foreign_rows
from tests.support.tables import TableFiles, acknowledge, rows

VALUES = [b"a", b"b", b"c"]
RANGES = [PlannedRange(0, 0, 3)]
QUICK = Backoff(first_s=0.001, cap_s=0.001, total_s=0.5)
PATIENT = Backoff(first_s=0.001, cap_s=0.001, total_s=60.0)


class LossyCatalog(StreamCatalog):
    """The catalog, with replies that get lost before or after the commit."""

    lose_before = 0
    lose_after = 0

    def append(
        self, layout: TableLayout, append: TableAppend, known: Known = NOTHING_KNOWN
    ) -> Verdict:
        if self.lose_before:
            self.lose_before -= 1
            raise OutcomeUnknown("lost before")
        verdict = super().append(layout, append, known)
        if self.lose_after:
            self.lose_after -= 1
            raise OutcomeUnknown("lost after")
        return verdict


@pytest.fixture
def catalog(tables: StreamCatalog) -> LossyCatalog:
    return LossyCatalog(tables._spec, tables._catalog)


def committer_with(backoff: Backoff, metadata: Metadata, catalog: LossyCatalog) -> TableCommitter:
    return TableCommitter(
        metadata.tables, catalog, clock=SystemClock(), random=Random(1), backoff=backoff
    )


@pytest.fixture
def committer(metadata: Metadata, catalog: LossyCatalog) -> TableCommitter:
    return committer_with(PATIENT, metadata, catalog)


async def take_lease(metadata: Metadata, topic: Topic, holder: str) -> Lease:
    lease = await metadata.leases.try_acquire(lease_name(topic.id), holder, 0.0)
    lease = lease or await metadata.leases.try_acquire(lease_name(topic.id), holder, 0.0)
    assert lease is not None
    return lease


@pytest.fixture
async def lease(metadata: Metadata, topic: Topic) -> Lease:
    await acknowledge(metadata, topic, VALUES)
    return await take_lease(metadata, topic, "first")


@pytest.fixture
def offsets(tables: StreamCatalog, files: TableFiles) -> Callable[[], list[int]]:
    def read() -> list[int]:
        table = tables.load(files.layout)
        return [] if table is None else table.scan().to_arrow()[OFFSET].to_pylist()

    return read


async def test_commit_moves_the_table_end_and_forgets_the_extents(
    metadata: Metadata, topic: Topic, committer: TableCommitter, lease: Lease, files: TableFiles
) -> None:
    verdict = await committer.commit(lease, topic, 1, RANGES, [files.write(rows(0, VALUES))])
    assert verdict is Verdict.APPLY
    located = await metadata.extents.locate(TopicPartition(topic.id, 0), 0, 1)
    assert located.ends.table_end == 3
    assert located.extents == ()
    assert await metadata.tables.intent(topic.id) is None


@pytest.mark.parametrize("lost", ["lose_before", "lose_after"])
async def test_commit_of_unknown_outcome_is_in_the_table_once(
    topic: Topic,
    catalog: LossyCatalog,
    committer: TableCommitter,
    lease: Lease,
    files: TableFiles,
    offsets: Callable[[], list[int]],
    lost: str,
) -> None:
    setattr(catalog, lost, 2)
    await committer.commit(lease, topic, 1, RANGES, [files.write(rows(0, VALUES))])
    assert offsets() == [0, 1, 2]


@pytest.mark.parametrize("lost", ["lose_before", "lose_after"])
async def test_next_holder_finishes_what_a_crashed_one_began(
    metadata: Metadata,
    topic: Topic,
    catalog: LossyCatalog,
    committer: TableCommitter,
    lease: Lease,
    files: TableFiles,
    offsets: Callable[[], list[int]],
    lost: str,
) -> None:
    setattr(catalog, lost, 1_000_000)
    impatient = committer_with(QUICK, metadata, catalog)
    with pytest.raises(Transient):
        await impatient.commit(lease, topic, 1, RANGES, [files.write(rows(0, VALUES))])
    setattr(catalog, lost, 0)
    await committer.recover(await take_lease(metadata, topic, "second"), topic)
    assert offsets() == [0, 1, 2]
    assert (await metadata.tables.ends(topic.id))[0].table_end == 3


async def test_stale_commit_is_abandoned_and_adds_nothing(
    metadata: Metadata,
    topic: Topic,
    committer: TableCommitter,
    lease: Lease,
    files: TableFiles,
    offsets: Callable[[], list[int]],
) -> None:
    for expected in (Verdict.APPLY, Verdict.STALE):
        verdict = await committer.commit(lease, topic, 1, RANGES, [files.write(rows(0, VALUES))])
        assert verdict is expected
    assert offsets() == [0, 1, 2]
    assert await metadata.tables.intent(topic.id) is None


async def test_holder_that_lost_its_lease_changes_nothing(
    metadata: Metadata,
    topic: Topic,
    committer: TableCommitter,
    lease: Lease,
    files: TableFiles,
    offsets: Callable[[], list[int]],
) -> None:
    await take_lease(metadata, topic, "second")
    with pytest.raises(Fenced):
        await committer.commit(lease, topic, 1, RANGES, [files.write(rows(0, VALUES))])
    assert offsets() == []


async def test_table_beyond_a_restored_metadata_store_is_red_before_anything_is_planned(
    topic: Topic, committer: TableCommitter, lease: Lease, files: TableFiles, tables: StreamCatalog
) -> None:
    tables.append(files.layout, append_of(files.write(rows(0, [b"x"] * 9))))
    with pytest.raises(RedTable, match="restored from an older back-up"):
        await committer.recover(lease, topic)


async def test_foreign_change_is_red_already_when_a_committer_starts(
    topic: Topic, committer: TableCommitter, lease: Lease, files: TableFiles, tables: StreamCatalog
) -> None:
    await committer.commit(lease, topic, 1, RANGES, [files.write(rows(0, VALUES))])
    await committer.recover(lease, topic)
    table = tables.load(files.layout)
    assert table is not None
    table.append(foreign_rows(table, [100]))
    with pytest.raises(RedTable, match="offset 100"):
        await committer.recover(lease, topic)


@pytest.fixture
async def mirrored(metadata: Metadata) -> Topic:
    config = {"lakestream.table.formats": "iceberg,delta"}
    return await metadata.topics.create("mirrored", config=config)


@pytest.mark.parametrize("error", [OSError("the store does not answer"), KeyError("surprise")])
async def test_delta_that_fails_holds_nothing_up_whatever_the_error(
    metadata: Metadata,
    mirrored: Topic,
    committer: TableCommitter,
    tables: StreamCatalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    def fail(*_: object) -> None:
        raise error

    await acknowledge(metadata, mirrored, VALUES)
    lease = await take_lease(metadata, mirrored, "first")
    files = TableFiles.of(tmp_path, tables, mirrored)
    with monkeypatch.context() as failing:
        failing.setattr(delta_changes, "files_with_deletes", fail)
        written = [files.write(rows(0, VALUES))]
        assert await committer.commit(lease, mirrored, 1, RANGES, written) is Verdict.APPLY
        await committer.recover(lease, mirrored)
    assert (await metadata.tables.ends(mirrored.id))[0].table_end == 3
    await committer.recover(lease, mirrored)
    table = tables.load(files.layout)
    assert table is not None
    assert in_delta(DeltaTable(delta_log.uri(table))) == [(0, 0), (0, 1), (0, 2)]


async def test_rows_that_others_inserted_get_into_delta_by_no_restart(
    metadata: Metadata,
    mirrored: Topic,
    committer: TableCommitter,
    tables: StreamCatalog,
    tmp_path: Path,
) -> None:
    await acknowledge(metadata, mirrored, VALUES)
    lease = await take_lease(metadata, mirrored, "first")
    files = TableFiles.of(tmp_path, tables, mirrored)
    await committer.commit(lease, mirrored, 1, RANGES, [files.write(rows(0, VALUES))])
    table = tables.load(files.layout)
    assert table is not None
    table.append(foreign_rows(table, [100]))
    with pytest.raises(RedTable):
        await committer.recover(lease, mirrored)
    assert in_delta(DeltaTable(delta_log.uri(table))) == [(0, 0), (0, 1), (0, 2)]


async def test_batch_that_is_set_aside_is_told_and_counted(
    topic: Topic, committer: TableCommitter, lease: Lease, caplog: pytest.LogCaptureFixture
) -> None:
    count = metrics.TABLE_QUARANTINED.of(topic.name)
    before = count.value
    batch = Quarantined(0, 0, 3, "file:///aside/0.batch", "its content is no records")
    await committer.commit(lease, topic, 1, RANGES, [], [batch])
    assert count.value == before + 1
    (told,) = (each for each in caplog.records if each.levelname == "WARNING")
    facts = told.__dict__["facts"]
    assert facts["topic"] == topic.name
    assert tuple(facts[name] for name in Quarantined._fields) == batch
