"""The sequencer's decision about one partition's run of batches: pure, no I/O.

What always holds: accepted batches get consecutive offsets from the high watermark on; a refused
batch takes none; the runs to index cover exactly the accepted batches, and every batch has one
verdict.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

from lakestream_spark.kafka.batch import LENGTH_OVERHEAD, TRANSACTIONAL_FLAG
from lakestream_spark.metadata.producer_state import NO_OFFSET, ProducerState, advance
from lakestream_spark.wal.receipt import BatchAnswer, BatchException, ExtentReceipt, Verdict
from lakestream_spark.wal.segment import SegmentExtent

TRANSACTIONAL: Final = 1
"""The bit of an extent's flags for a run of transactional batches."""


PartitionState: TypeAlias = tuple[int, int | None]
"""What the decision needs to know of a partition and changes: next offset, first unstable one."""


class Run(NamedTuple):
    """Neighbouring accepted batches of one kind: one row of the index."""

    base_offset: int
    next_offset: int
    position: int
    length: int
    max_timestamp: int
    flags: int


_WITHDRAWN: Final = BatchAnswer(Verdict.OUT_OF_ORDER, NO_OFFSET)


class Decision(NamedTuple):
    """The answer, the states afterwards (of changed producers only) and the runs to index."""

    receipt: ExtentReceipt
    partition: PartitionState
    producers: dict[int, ProducerState]
    runs: list[Run]


def decide(
    extent: SegmentExtent,
    partition: PartitionState,
    producers: Mapping[int, ProducerState],
    withdrawn: Collection[int] = (),
) -> Decision:
    """Judge the batches in their order; `withdrawn` producers are refused as out of order."""
    changed: dict[int, ProducerState] = {}
    exceptions: list[BatchException] = []
    runs: list[Run] = []
    offset, unstable = partition
    position = extent.position
    for number, header in enumerate(extent.batches):
        size, producer_id = header.length + LENGTH_OVERHEAD, header.producer_id
        position += size
        if producer_id >= 0:
            state = changed.get(producer_id) or producers.get(producer_id)
            after = _WITHDRAWN if producer_id in withdrawn else advance(state, header, offset)
            if isinstance(after, BatchAnswer):
                exceptions.append(BatchException(number, *after))
                continue
            changed[producer_id] = after
        flags = TRANSACTIONAL if header.attributes & TRANSACTIONAL_FLAG else 0
        if flags and unstable is None:
            unstable = offset  # until the transaction ends, readers of committed data stop here
        base, offset = offset, offset + header.last_offset_delta + 1
        run = Run(base, offset, position - size, size, header.max_timestamp, flags)
        if runs:
            _add(runs, run)
        else:
            runs.append(run)
    receipt = ExtentReceipt(partition[0], tuple(exceptions))
    return Decision(receipt, (offset, unstable), changed, runs)


def refuse(extent: SegmentExtent, verdict: Verdict) -> ExtentReceipt:
    """The answer when no batch of the extent can be taken."""
    exceptions = (BatchException(n, verdict, NO_OFFSET) for n in range(len(extent.batches)))
    return ExtentReceipt(NO_OFFSET, tuple(exceptions))


def _add(runs: list[Run], run: Run) -> None:
    """Append the run, or lengthen the last one if it is of its kind and ends where it starts."""
    last = runs[-1]
    if last.position + last.length != run.position or last.flags != run.flags:
        runs.append(run)
        return
    runs[-1] = last._replace(
        next_offset=run.next_offset,
        length=last.length + run.length,
        max_timestamp=max(last.max_timestamp, run.max_timestamp),
    )
