"""A Fetch request, of one partition unless told otherwise, over a bare connection."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from lakestream_spark.ingress.handlers import fetch
from tests.support.asking import Asking
from tests.support.wire import Wire

VERSION: Final = 11


def fetch_request(
    wire: Wire,
    topic: str,
    *,
    offset: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    max_wait: timedelta = timedelta(minutes=10),
    partitions: Sequence[int] = (0,),
) -> Any:
    """Outside any session."""
    api = Asking(wire, fetch.API_KEY, VERSION)
    wanted = tuple(
        api.part(
            "FetchPartition",
            partition=partition,
            fetch_offset=offset,
            current_leader_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=max_bytes,
        )
        for partition in partitions
    )
    return api.part(
        "FetchRequest",
        replica_id=-1,
        max_wait=max_wait,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(api.part("FetchTopic", topic=topic, partitions=wanted),),
        forgotten_topics_data=(),
        rack_id="",
    )


async def fetched(wire: Wire, topic: str, **how: Any) -> bytes:
    """The batches of the answer."""
    await wire.send(fetch_request(wire, topic, **how))
    _, body = await wire.receive(fetch.API_KEY, VERSION)
    return bytes(body.responses[0].partitions[0].records)
