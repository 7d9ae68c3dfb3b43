"""Both clusters, each started once and only when a test needs it.

The first start fetches Kafka's jars, which takes minutes: the time of a test counts without them.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

pytest.register_assert_rewrite("tests.compat.comparison", "tests.compat.peer")

# ruff: noqa: E402
from tests.compat.clusters import NAMES, Cluster
from tests.compat.hole_readers import by_librdkafka
from tests.compat.holes import EARLIEST, HOLES, expected, make_in_kafka, make_in_tables
from tests.compat.lakes import QUICK_FLUSH, Lake, running_lake
from tests.support.ingress_process import eventually, ingress
from tests.support.kafka_oracle import kafka_node

WITHIN_S: Final = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A hook sees the tests of all folders; only those here are meant."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(WITHIN_S, func_only=True))


@pytest.fixture(scope="session")
def lakestream() -> Iterator[Cluster]:
    """One ingress process."""
    with (
        TemporaryDirectory(prefix="lakestream-compat-") as folder,
        ingress(Path(folder), *QUICK_FLUSH) as process,
    ):
        (listening,) = process.ready()
        yield Cluster(name="lakestream", bootstrap=listening.kafka)
        assert process.stop() == 0, "".join(process.log)


@pytest.fixture(scope="session")
def lake() -> Iterator[Lake]:
    """Another ingress, for those who move records into tables."""
    with TemporaryDirectory(prefix="lakestream-lake-") as folder, running_lake(Path(folder)) as up:
        yield up


@pytest.fixture(scope="session")
def kafka() -> Iterator[Cluster]:
    """One node of Apache Kafka."""
    with kafka_node() as node:
        yield Cluster(name="kafka", bootstrap=node.bootstrap)


@pytest.fixture(scope="session")
def lakestream_with_holes(lake: Lake) -> Cluster:
    """With the topic of `holes`."""
    asyncio.run(make_in_tables(lake, HOLES))
    eventually(lambda: has_holes(lake.cluster))
    return lake.cluster


@pytest.fixture(scope="session")
def kafka_with_holes(kafka: Cluster) -> Cluster:
    """The same there; its cleaner comes by in its own time."""
    asyncio.run(make_in_kafka(kafka, HOLES))
    eventually(lambda: has_holes(kafka))
    return kafka


def has_holes(cluster: Cluster) -> bool:
    return by_librdkafka(cluster.bootstrap, HOLES, EARLIEST) == expected(EARLIEST)


@pytest.fixture(params=NAMES)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Each of the two in turn."""
    found: Cluster = request.getfixturevalue(request.param)
    return found
