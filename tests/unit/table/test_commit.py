from collections.abc import Callable
from random import Random

import pytest

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Fenced, OutcomeUnknown, Transient
from lakestream_spark.core.ids import TopicPartition
from lakestream_spark.core.retry import Backoff
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.append import TableAppend, Verdict
from lakestream_spark.table.columns import OFFSET
from lakestream_spark.table.commit import TableCommitter, lease_name
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.layout import TableLayout
from tests.support.tables import TableFiles, acknowledge, rows

VALUES = [b"a", b"b", b"c"]
RANGES = [PlannedRange(0, 0, 3)]
QUICK = Backoff(first_s=0.001, cap_s=0.001, total_s=0.5)
PATIENT = Backoff(first_s=0.001, cap_s=0.001, total_s=60.0)


class LossyCatalog(StreamCatalog):
    """The catalog, with replies that get lost before or after the commit."""

    lose_before = 0
    lose_after = 0

    def append(self, layout: TableLayout, append: TableAppend) -> Verdict:
        if self.lose_before:
            self.lose_before -= 1
            raise OutcomeUnknown("lost before")
        verdict = super().append(layout, append)
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
