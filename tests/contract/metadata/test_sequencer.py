"""What the WAL's `Sequencer` port promises."""

from collections.abc import Sequence
from uuid import uuid4

import pytest

from lakestream_spark.core.errors import Fenced, Rejected
from lakestream_spark.core.ids import BrokerId, TopicId, TopicPartition
from lakestream_spark.kafka.batch import BatchHeader
from lakestream_spark.metadata import Metadata
from lakestream_spark.wal.receipt import BatchAnswer, Verdict
from lakestream_spark.wal.segment import Withdrawn, WriterIdentity
from tests.support.metadata import answers, header, stored

ACCEPTED, DUPLICATE = Verdict.ACCEPTED, Verdict.DUPLICATE
OUT_OF_ORDER = BatchAnswer(Verdict.OUT_OF_ORDER, -1)
UNKNOWN_TOPIC = BatchAnswer(Verdict.UNKNOWN_TOPIC, -1)


async def commit(
    metadata: Metadata,
    writer: WriterIdentity,
    n: int,
    *extents: tuple[TopicPartition, list[BatchHeader]],
    withdrawn: Sequence[Withdrawn] = (),
) -> list[list[BatchAnswer]]:
    segment = stored(writer, n, *extents, withdrawn=withdrawn)
    return answers(segment, await metadata.sequencer.commit(segment))


async def test_offsets_follow_each_other_across_segments_and_brokers(metadata, writer, partition):
    other = await metadata.writers.register(BrokerId(2), "cost")
    first = await commit(metadata, writer, 1, (partition, [header(2), header(3)]))
    second = await commit(metadata, other, 1, (partition, [header(4)]))
    third = await commit(metadata, writer, 2, (partition, [header(1)]))
    assert first == [[(ACCEPTED, 0), (ACCEPTED, 2)]]
    assert second == [[(ACCEPTED, 5)]]
    assert third == [[(ACCEPTED, 9)]]


async def test_every_partition_of_a_segment_counts_for_itself(metadata, writer, partition):
    third = TopicPartition(partition.topic_id, 2)
    await commit(metadata, writer, 1, (third, [header(7)]))
    both = await commit(metadata, writer, 2, (partition, [header()]), (third, [header()]))
    assert both == [[(ACCEPTED, 0)], [(ACCEPTED, 7)]]


async def test_repeating_the_newest_segment_returns_the_first_answer(metadata, writer, partition):
    batches = [header(2, producer=7, sequence=0), header(2, producer=7, sequence=9), header(1)]
    segment = stored(writer, 1, (partition, batches))
    first = await metadata.sequencer.commit(segment)
    assert await metadata.sequencer.commit(segment) == first
    ends = (await metadata.extents.locate(partition, 0, 1)).ends
    assert ends.high_watermark == 3


async def test_a_segment_older_than_the_newest_is_refused(metadata, writer, partition):
    await commit(metadata, writer, 5, (partition, [header()]))
    with pytest.raises(Fenced, match="newer segment"):
        await commit(metadata, writer, 4, (partition, [header()]))


async def test_numbers_may_be_left_out_when_an_upload_failed(metadata, writer, partition):
    await commit(metadata, writer, 1, (partition, [header()]))
    assert await commit(metadata, writer, 4, (partition, [header()])) == [[(ACCEPTED, 1)]]


async def test_a_fenced_writer_commits_nothing_and_cannot_repeat(metadata, writer, partition):
    segment = stored(writer, 1, (partition, [header()]))
    await metadata.sequencer.commit(segment)
    await metadata.writers.fence(writer)
    for n in (1, 2):
        with pytest.raises(Fenced, match="epoch is over"):
            await commit(metadata, writer, n, (partition, [header()]))


async def test_a_new_registration_fences_the_one_before_it(metadata, writer, partition):
    newer = await metadata.writers.register(writer.broker_id, writer.profile)
    with pytest.raises(Fenced):
        await commit(metadata, writer, 1, (partition, [header()]))
    assert await commit(metadata, newer, 1, (partition, [header()])) == [[(ACCEPTED, 0)]]


async def test_a_writer_that_was_never_registered_is_refused(metadata, partition):
    stranger = WriterIdentity(BrokerId(9), 99, "cost")
    with pytest.raises(Fenced):
        await commit(metadata, stranger, 1, (partition, [header()]))


async def test_a_duplicate_gets_its_first_offset_and_uses_none(metadata, writer, partition):
    batch = header(3, producer=7, sequence=0)
    await commit(metadata, writer, 1, (partition, [header(5), batch]))
    again = await commit(metadata, writer, 2, (partition, [batch, header(1)]))
    assert again == [[(DUPLICATE, 5), (ACCEPTED, 8)]]


async def test_a_duplicate_inside_one_segment_is_found(metadata, writer, partition):
    batch = header(3, producer=7, sequence=0)
    both = await commit(metadata, writer, 1, (partition, [batch, batch]))
    assert both == [[(ACCEPTED, 0), (DUPLICATE, 0)]]


async def test_a_duplicate_is_known_after_its_extent_went_to_the_table(metadata, writer, partition):
    batch = header(3, producer=7, sequence=0)
    await commit(metadata, writer, 1, (partition, [batch]))
    lease = await metadata.leases.try_acquire("table", "me", 1)
    await metadata.tables.finish(lease, partition.topic_id, "c1", {0: 3})
    assert (await metadata.extents.locate(partition, 0, 1)).extents == ()
    assert await commit(metadata, writer, 2, (partition, [batch])) == [[(DUPLICATE, 0)]]


async def test_a_gap_in_the_sequence_is_refused_and_the_next_batch_is_not(
    metadata, writer, partition
):
    await commit(metadata, writer, 1, (partition, [header(2, producer=7, sequence=0)]))
    gap = header(1, producer=7, sequence=5)
    following = header(1, producer=7, sequence=2)
    assert await commit(metadata, writer, 2, (partition, [gap, following])) == [
        [OUT_OF_ORDER, (ACCEPTED, 2)]
    ]


async def test_producers_of_several_partitions_are_kept_apart(metadata, writer, partition):
    second = TopicPartition(partition.topic_id, 1)
    await commit(metadata, writer, 1, (partition, [header(1, producer=7, sequence=0)]))
    fresh = await commit(metadata, writer, 2, (second, [header(1, producer=7, sequence=40)]))
    assert fresh == [[(ACCEPTED, 0)]]


async def test_an_unknown_topic_refuses_its_own_batches_only(metadata, writer, partition):
    nowhere = TopicPartition(TopicId(uuid4()), 0)
    no_index = TopicPartition(partition.topic_id, 3)
    result = await commit(
        metadata,
        writer,
        1,
        (nowhere, [header(), header()]),
        (partition, [header()]),
        (no_index, [header()]),
    )
    assert result == [[UNKNOWN_TOPIC, UNKNOWN_TOPIC], [(ACCEPTED, 0)], [UNKNOWN_TOPIC]]


async def test_a_segment_of_refused_batches_is_unreferenced_at_once(metadata, writer, clock):
    nowhere = TopicPartition(TopicId(uuid4()), 0)
    segment = stored(writer, 1, (nowhere, [header()]))
    await metadata.sequencer.commit(segment)
    found = await metadata.ledger.unreferenced("cost", before_ms=clock.wall_ms() + 1, limit=10)
    assert [candidate.segment_id for candidate in found] == [segment.id]


async def test_withdrawn_producers_are_refused_in_their_partition_only(metadata, writer, partition):
    second = TopicPartition(partition.topic_id, 1)
    batch = header(1, producer=7, sequence=1)
    result = await commit(
        metadata,
        writer,
        1,
        (partition, [batch, header(1, producer=8, sequence=0)]),
        (second, [batch]),
        withdrawn=[Withdrawn(partition, 7)],
    )
    assert result == [[OUT_OF_ORDER, (ACCEPTED, 0)], [(ACCEPTED, 0)]]


async def test_neighbouring_batches_are_one_extent_and_a_refused_one_splits_it(
    metadata, writer, partition
):
    refused = header(1, producer=7, sequence=9, size=70)
    batches = [header(2, producer=7, sequence=0), header(1), refused, header(4), header(1)]
    await commit(metadata, writer, 1, (partition, batches))
    extents = (await metadata.extents.locate(partition, 0, 1 << 20)).extents
    assert [(e.base_offset, e.next_offset, e.position, e.length) for e in extents] == [
        (0, 3, 48, 200),
        (3, 8, 318, 200),
    ]


async def test_a_transactional_batch_holds_back_the_last_stable_offset(metadata, writer, partition):
    batches = [header(2), header(1, producer=7, sequence=0, transactional=True), header(3)]
    await commit(metadata, writer, 1, (partition, batches))
    located = await metadata.extents.locate(partition, 0, 1 << 20)
    assert (located.ends.last_stable, located.ends.high_watermark) == (2, 6)
    assert [extent.transactional for extent in located.extents] == [False, True, False]


async def test_two_extents_of_one_partition_are_refused(metadata, writer, partition):
    with pytest.raises(Rejected, match="one extent per partition"):
        await commit(metadata, writer, 1, (partition, [header()]), (partition, [header()]))


async def test_a_topic_created_again_shares_nothing_with_the_one_before(
    metadata, writer, partition
):
    batch = header(3, producer=7, sequence=0)
    await commit(metadata, writer, 1, (partition, [batch]))
    await metadata.topics.delete(partition.topic_id)
    again = await metadata.topics.create("orders", partitions=3)
    fresh = TopicPartition(again.id, 0)
    result = await commit(metadata, writer, 2, (partition, [header()]), (fresh, [batch]))
    assert result == [[UNKNOWN_TOPIC], [(ACCEPTED, 0)]]
