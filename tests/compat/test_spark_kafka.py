"""Spark's own `kafka` sink and source, in one Spark: what is written, and topics with holes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.compat import spark_kafka_job
from tests.compat.clusters import Cluster, unique
from tests.compat.confluent_admin import AdminClient, create_topic
from tests.compat.holes import EARLIEST, HOLES, INSIDE, expected
from tests.support.kafka_jars import spark_connector_jars

# Half a minute each; the oracle is asked by `make test-all`.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.parametrize(
        "seen", ["lakestream", pytest.param("kafka", marks=pytest.mark.slow)], indirect=True
    ),
]
STARTS = INSIDE[1]


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the job saw of the cluster that is named."""
    cluster: Cluster = request.getfixturevalue(f"{request.param}_with_holes")
    folder, topic = tmp_path_factory.mktemp("spark"), unique("spark")
    create_topic(AdminClient({"bootstrap.servers": cluster.bootstrap}), topic, 3)
    inside = json.dumps({HOLES: {str(partition): start for partition, start in STARTS.items()}})
    spec = {
        "bootstrap": cluster.bootstrap,
        "topic": topic,
        "holes": HOLES,
        "starts": [inside, "earliest"],
    }
    jars = ",".join(str(jar) for jar in spark_connector_jars())
    done = subprocess.run(
        [sys.executable, "-m", spark_kafka_job.__name__, jars, json.dumps(spec), str(folder)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / "seen.json").read_text())


def test_what_the_sink_writes_the_source_reads_as_batch_and_as_stream(seen: Any) -> None:
    whole = dict.fromkeys(("records", "values", "places", "headers"), spark_kafka_job.RECORDS)
    assert seen["written"] == {"batch": whole, "stream": whole}


def test_the_source_loses_nothing_and_waits_for_nothing_at_a_hole(seen: Any) -> None:
    for starts, own in zip((STARTS, EARLIEST), seen["holes"], strict=True):
        assert by_partition(own["batch"]) == expected(starts).seen
        assert by_partition(own["stream"]) == expected(starts).seen
        assert own["batches"] > 1


def by_partition(places: list[list[int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {partition: [] for partition in EARLIEST}
    for partition, offset in places:
        found[partition].append(offset)
    return found
