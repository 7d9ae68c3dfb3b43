"""Idempotent producers: the same requests to both clusters, and the same answers."""

from typing import Any, Final

import pytest

from tests.compat.clusters import Cluster, differs
from tests.compat.comparison import Comparisons
from tests.compat.peer import TIMEOUT, Peer, produced
from tests.support.batches import make_batch

COMPARED: Final = Comparisons()


async def producer_id(peer: Peer, **wanted: Any) -> Any:
    values = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1, **wanted}
    return await peer.api(22, 5).ask("InitProducerIdRequest", transaction_timeout=TIMEOUT, **values)


def timeless(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "log_append_time"}


@COMPARED.add(differs("append-time-of-a-repeated-batch", lakestream=None, kafka="a time"))
async def a_repeated_batch_has_no_append_time(peer: Peer) -> Any:
    await peer.create()
    pid = (await producer_id(peer)).producer_id
    batch = make_batch([b"a"], producer_id=pid, epoch=0, sequence=0)
    return [(await produced(peer, batch))["log_append_time"] for _ in range(2)][1]


@COMPARED.add()
async def a_producer_gets_an_id_and_epoch_0(peer: Peer) -> Any:
    answer = await producer_id(peer)
    return answer.error_code.name, answer.producer_id >= 0, answer.producer_epoch


@COMPARED.add()
async def a_repeated_sequence_is_answered_with_its_first_offset(peer: Peer) -> Any:
    await peer.create()
    pid = (await producer_id(peer)).producer_id
    first = make_batch([b"a", b"b"], producer_id=pid, epoch=0, sequence=0)
    second = make_batch([b"c"], producer_id=pid, epoch=0, sequence=2)
    batches = (first, second, first, second, second)
    return [timeless(await produced(peer, batch)) for batch in batches]


@COMPARED.add()
async def a_gap_in_the_sequence_is_refused(peer: Peer) -> Any:
    await peer.create()
    pid = (await producer_id(peer)).producer_id
    batches = [
        make_batch([b"a"], producer_id=pid, epoch=0, sequence=sequence) for sequence in (0, 1, 5, 2)
    ]
    return [await produced(peer, batch) for batch in batches]


@COMPARED.add()
async def a_sequence_older_than_five_batches_is_a_duplicate(peer: Peer) -> Any:
    await peer.create()
    pid = (await producer_id(peer)).producer_id
    batches = [
        make_batch([b"a"], producer_id=pid, epoch=0, sequence=sequence) for sequence in range(7)
    ]
    again = [*batches, batches[3], batches[0]]
    return [timeless(await produced(peer, batch)) for batch in again]


@COMPARED.add()
async def a_first_sequence_that_is_not_0(peer: Peer) -> Any:
    await peer.create()
    pid = (await producer_id(peer)).producer_id
    return await produced(peer, make_batch([b"a"], producer_id=pid, epoch=0, sequence=7))


@COMPARED.add()
async def a_new_epoch_must_begin_with_sequence_0(peer: Peer) -> Any:
    await peer.create()
    pid = (await producer_id(peer)).producer_id
    batches = [
        make_batch([b"a"], producer_id=pid, epoch=epoch, sequence=sequence)
        for epoch, sequence in ((0, 0), (1, 3), (1, 0), (0, 1))
    ]
    return [await produced(peer, batch) for batch in batches]


@COMPARED.add()
async def sequences_wrap_around(peer: Peer) -> Any:
    await peer.create()
    pid = (await producer_id(peer)).producer_id
    top = 2**31 - 1
    batches = [
        make_batch([b"a", b"b"], producer_id=pid, epoch=0, sequence=sequence)
        for sequence in (top - 1, 0, top)
    ]
    return [await produced(peer, batch) for batch in batches]


@COMPARED.add()
async def a_negative_sequence_with_a_producer_id(peer: Peer) -> Any:
    await peer.create()
    pid = (await producer_id(peer)).producer_id
    return await produced(peer, make_batch([b"a"], producer_id=pid, epoch=0, sequence=-1))


@pytest.mark.parametrize("name", COMPARED.names)
async def test_both_answer_the_same(name: str, lakestream: Cluster, kafka: Cluster) -> None:
    await COMPARED.run(name, lakestream, kafka)
