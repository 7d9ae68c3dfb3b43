"""ApiVersions and frames that are not understood: both clusters do the same."""

import struct
from typing import Any, Final

import pytest

from lakestream_spark.ingress.dispatch import OFFERED
from tests.compat.clusters import Cluster
from tests.compat.comparison import Comparisons
from tests.compat.peer import TIMEOUT, Peer
from tests.support.batches import make_batch

COMPARED: Final = Comparisons()


@COMPARED.add()
async def api_versions_of_a_version_that_does_not_exist(peer: Peer) -> Any:
    await peer.wire.send_frame(struct.pack(">hhihb", 18, 99, 5, -1, 0))
    correlation, answer = await peer.wire.receive(18, 0)
    first = correlation, answer.error_code.name, any(key.api_key == 18 for key in answer.api_keys)
    again = await peer.api(18, 3).ask(
        "ApiVersionsRequest", client_software_name="x", client_software_version="1"
    )
    return first, again.error_code.name


@COMPARED.add()
async def the_first_version_of_every_api_that_we_offer(peer: Peer) -> Any:
    answer = await peer.api(18, 3).ask(
        "ApiVersionsRequest", client_software_name="x", client_software_version="1"
    )
    return {each.api_key: each.min_version for each in answer.api_keys if each.api_key in OFFERED}


@COMPARED.add()
async def a_produce_of_a_version_that_is_listed_and_gone(peer: Peer) -> Any:
    await peer.wire.send_frame(struct.pack(">hhih", 0, 2, 1, -1) + bytes(10))
    return await peer.wire.receive(0, 3)


@COMPARED.add()
async def api_versions_with_an_illegal_software_name(peer: Peer) -> Any:
    answer = await peer.api(18, 3).ask(
        "ApiVersionsRequest", client_software_name="", client_software_version="ä b"
    )
    return answer.error_code.name


@COMPARED.add()
async def an_unknown_api_closes_the_connection(peer: Peer) -> Any:
    await peer.wire.send_frame(struct.pack(">hhih", 999, 0, 5, -1))
    return await peer.wire.closed_by_peer()


@COMPARED.add()
async def a_version_that_is_not_offered_closes_the_connection(peer: Peer) -> Any:
    await peer.wire.send_frame(struct.pack(">hhih", 3, 99, 5, -1))
    return await peer.wire.closed_by_peer()


@COMPARED.add()
async def a_failed_produce_without_acks_closes_the_connection(peer: Peer) -> Any:
    await peer.create()
    api = peer.api(0, 9)
    sent = api.part(
        "ProduceRequest",
        transactional_id=None,
        acks=0,
        timeout=TIMEOUT,
        topic_data=(
            api.part(
                "TopicProduceData",
                name=peer.topic,
                partition_data=(
                    api.part("PartitionProduceData", index=9, records=make_batch([b"x"])),
                ),
            ),
        ),
    )
    await peer.wire.send(sent)
    return await peer.wire.closed_by_peer()


@pytest.mark.parametrize("name", COMPARED.names)
async def test_both_answer_the_same(name: str, lakestream: Cluster, kafka: Cluster) -> None:
    await COMPARED.run(name, lakestream, kafka)
