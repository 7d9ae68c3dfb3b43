"""No client stalls at a lawful hole, repeats a record or ends before the high watermark.

The same holes as in a compacted topic of Apache Kafka, and the same is seen by every client.
"""

from collections.abc import Callable
from typing import Final

import pytest

from tests.compat.clusters import NAMES, Cluster
from tests.compat.hole_readers import by_aiokafka, by_java, by_kafka_python, by_librdkafka
from tests.compat.holes import (
    EARLIEST,
    HOLES,
    INSIDE,
    Reading,
    Starts,
    expected,
    time_of,
)
from tests.compat.kafka_python import sockets_it_forgets
from tests.compat.peer import Peer, plain

__all__ = ["sockets_it_forgets"]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

Reader = Callable[[str, str, Starts], Reading]


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """By its name."""
    found: Cluster = request.getfixturevalue(f"{request.param}_with_holes")
    return found


READERS: Final = (by_librdkafka, by_kafka_python, by_aiokafka, by_java)
CASES: Final = [
    # A JVM for each start; on Kafka it is at home.
    pytest.param(name, read, marks=pytest.mark.slow if (name, read) == ("kafka", by_java) else ())
    for name in NAMES
    for read in READERS
]


@pytest.mark.parametrize(("cluster", "read"), CASES, indirect=["cluster"])
def test_every_client_reads_over_every_hole_to_the_end(cluster: Cluster, read: Reader) -> None:
    for starts in (EARLIEST, *INSIDE):
        assert read(cluster.bootstrap, HOLES, starts) == expected(starts)


async def test_a_time_in_a_hole_is_found_where_kafka_finds_it(
    lakestream_with_holes: Cluster, kafka_with_holes: Cluster
) -> None:
    """In the partitions without an aborted transaction, whose records Kafka counts here."""
    asked = [(p, time) for p in (1, 3) for time in (-3, 0, *map(time_of, range(81)))]
    answers = []
    for cluster in (lakestream_with_holes, kafka_with_holes):
        async with Peer(cluster, HOLES) as peer:
            answers.append([plain(await peer.list_offsets(t, partition_index=p)) for p, t in asked])
    ours, theirs = answers
    assert list(zip(asked, ours, strict=True)) == list(zip(asked, theirs, strict=True))
