"""The sequencer's decision, rule by rule."""

from collections.abc import Collection, Sequence
from uuid import UUID

import pytest

from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.kafka.batch import BatchHeader
from lakestream_spark.metadata.decide import Run, decide, refuse
from lakestream_spark.metadata.producer_state import ProducerState, advance
from lakestream_spark.wal.receipt import BatchAnswer, Verdict
from lakestream_spark.wal.segment import SegmentExtent
from tests.support.metadata import TIMESTAMP_MS, header

PARTITION = TopicPartition(TopicId(UUID(int=1)), 0)
LAST = 2**31 - 1
OUT_OF_ORDER = (Verdict.OUT_OF_ORDER, -1)
STALE = (Verdict.STALE_EPOCH, -1)


def ok(offset: int) -> tuple[Verdict, int]:
    return Verdict.ACCEPTED, offset


def duplicate(offset: int) -> tuple[Verdict, int]:
    return Verdict.DUPLICATE, offset


def extent(*batches: BatchHeader) -> SegmentExtent:
    return SegmentExtent(PARTITION, 48, sum(batch.size for batch in batches), batches)


def advanced(state: ProducerState | None, batch: BatchHeader, offset: int) -> ProducerState:
    after = advance(state, batch, offset)
    assert not isinstance(after, BatchAnswer)
    return after


def sent(*batches: BatchHeader) -> ProducerState:
    """The state of a producer after these batches."""
    state: ProducerState | None = None
    offset = 0
    for batch in batches:
        state = advanced(state, batch, offset)
        offset += batch.offsets
    assert state is not None
    return state


def judge(
    batches: Sequence[BatchHeader],
    *,
    state: ProducerState | None = None,
    withdrawn: Collection[int] = (),
) -> list[BatchAnswer]:
    producers = {} if state is None else {7: state}
    own = extent(*batches)
    decision = decide(own, (100, None), producers, withdrawn)
    return decision.receipt.answers([batch.offsets for batch in batches])


def p(sequence: int, records: int = 1, epoch: int = 0) -> BatchHeader:
    return header(records, producer=7, epoch=epoch, sequence=sequence)


THREE = sent(p(0, 2), p(2, 3), p(5, 1))
SIX = sent(*(p(n) for n in range(6)))

CASES = {
    "no producer id: always": ([header(2), header(3)], None, [ok(100), ok(102)]),
    "no producer id: beside a known producer": ([header(2)], THREE, [ok(100)]),
    "no state: from zero": ([p(0)], None, [ok(100)]),
    "no state: any sequence": ([p(55), p(56)], None, [ok(100), ok(101)]),
    "next sequence": ([p(6)], THREE, [ok(100)]),
    "next sequences in one extent": ([p(6, 4), p(10)], THREE, [ok(100), ok(104)]),
    "gap": ([p(7)], THREE, [OUT_OF_ORDER]),
    "gap, then the right one": ([p(7), p(6)], THREE, [OUT_OF_ORDER, ok(100)]),
    "back without being a duplicate": ([p(3, 1)], THREE, [OUT_OF_ORDER]),
    "same first but another last sequence": ([p(2, 2)], THREE, [OUT_OF_ORDER]),
    "the newest again": ([p(5)], THREE, [duplicate(5)]),
    "the oldest kept again": ([p(0, 2)], THREE, [duplicate(0)]),
    "all again, then on": (
        [p(0, 2), p(2, 3), p(5), p(6)],
        THREE,
        [duplicate(0), duplicate(2), duplicate(5), ok(100)],
    ),
    "fifth newest is remembered": ([p(1)], SIX, [duplicate(1)]),
    "sixth newest is forgotten": ([p(0)], SIX, [OUT_OF_ORDER]),
    "duplicate within the extent": ([p(0), p(0), p(1)], None, [ok(100), duplicate(100), ok(101)]),
    "older epoch": ([p(6, epoch=0)], sent(p(0, epoch=1)), [STALE]),
    "older epoch, even when a duplicate": ([p(0, epoch=0)], sent(p(0, epoch=1)), [STALE]),
    "newer epoch from zero": ([p(0, epoch=1), p(1, epoch=1)], THREE, [ok(100), ok(101)]),
    "newer epoch not from zero": ([p(6, epoch=1)], THREE, [OUT_OF_ORDER]),
    "newer epoch forgets the older batches": (
        [p(0, epoch=1), p(5, epoch=1)],
        THREE,
        [ok(100), OUT_OF_ORDER],
    ),
    "old epoch after a newer one in one extent": (
        [p(0, epoch=1), p(6, epoch=0)],
        THREE,
        [ok(100), STALE],
    ),
    "wraps to zero": ([p(0)], sent(p(LAST)), [ok(100)]),
    "wraps inside a batch": ([p(1)], sent(p(LAST - 1, 3)), [ok(100)]),
    "a batch that wrapped is a duplicate": (
        [p(LAST - 1, 3)],
        sent(p(LAST - 1, 3), p(1)),
        [duplicate(0)],
    ),
    "no wrap before the end": ([p(0)], sent(p(LAST - 1)), [OUT_OF_ORDER]),
}


@pytest.mark.parametrize(("batches", "state", "expected"), CASES.values(), ids=CASES)
def test_kafkas_rules_about_sequences(batches, state, expected):
    assert judge(batches, state=state) == expected


def test_withdrawn_producers_are_refused_and_nobody_else():
    other = header(1, producer=8, sequence=0)
    answers = judge([p(0), other, header(1)], withdrawn={7})
    assert answers == [OUT_OF_ORDER, ok(100), ok(101)]


def test_producers_of_one_extent_are_kept_apart():
    other = header(1, producer=8, sequence=40)
    decision = decide(extent(p(6), other, p(7)), (10, None), {7: THREE})
    assert decision.receipt.exceptions == ()
    assert set(decision.producers) == {7, 8}
    assert decision.producers[7] == advanced(advanced(THREE, p(6), 10), p(7), 12)


def test_refused_batches_change_nothing():
    decision = decide(extent(p(9), p(0, 2)), (10, None), {7: THREE})
    assert decision.partition == (10, None)
    assert (decision.producers, decision.runs) == ({}, [])


def run(base: int, following: int, position: int, length: int, flags: int = 0) -> Run:
    return Run(base, following, position, length, TIMESTAMP_MS, flags)


def t(records: int, sequence: int) -> BatchHeader:
    return header(records, producer=7, sequence=sequence, transactional=True)


RUNS = {
    "one batch": ([header(3)], [run(0, 3, 48, 100)]),
    "neighbours": ([header(3), header(1, size=70)], [run(0, 4, 48, 170)]),
    "refused first": ([p(9), header(2)], [run(0, 2, 148, 100)]),
    "refused last": ([header(2), p(9)], [run(0, 2, 48, 100)]),
    "refused between": (
        [header(1), p(9), header(2), header(1)],
        [run(0, 1, 48, 100), run(1, 4, 248, 200)],
    ),
    "transactional between": (
        [header(1), t(2, 6), t(1, 8), header(1)],
        [run(0, 1, 48, 100), run(1, 4, 148, 200, 1), run(4, 5, 348, 100)],
    ),
}


@pytest.mark.parametrize(("batches", "expected"), RUNS.values(), ids=RUNS)
def test_runs_cover_the_accepted_batches(batches, expected):
    assert decide(extent(*batches), (0, None), {7: THREE}).runs == expected


def test_a_run_has_the_newest_of_its_timestamps():
    times = [header(1, timestamp=time) for time in (5, 9, 7)]
    (only,) = decide(extent(*times), (0, None), {}).runs
    assert only.max_timestamp == 9


@pytest.mark.parametrize(
    ("unstable", "batches", "expected"),
    [
        (None, [header(2)], None),
        (None, [header(2), t(1, 0), t(1, 1)], 12),
        (4, [t(1, 0)], 4),
        (4, [header(1)], 4),
    ],
)
def test_the_first_open_transaction_is_where_stable_offsets_end(unstable, batches, expected):
    assert decide(extent(*batches), (10, unstable), {}).partition[1] == expected


def test_refusing_an_extent_gives_every_batch_the_verdict():
    batches = (header(2), header(1))
    receipt = refuse(extent(*batches), Verdict.UNKNOWN_TOPIC)
    assert receipt.answers([2, 1]) == [(Verdict.UNKNOWN_TOPIC, -1)] * 2
