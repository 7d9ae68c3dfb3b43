"""Spark's own `kafka` sink and source."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat import spark_kafka_job
from tests.compat.clusters import Cluster, unique
from tests.compat.confluent_admin import AdminClient, create_topic
from tests.support.kafka_jars import spark_connector_jars

pytestmark = pytest.mark.spark


# Half a minute each; the oracle is asked by `make test-all`.
@pytest.mark.parametrize(
    "cluster", ["lakestream", pytest.param("kafka", marks=pytest.mark.slow)], indirect=True
)
def test_what_the_sink_writes_the_source_reads_as_batch_and_as_stream(
    cluster: Cluster, tmp_path: Path
) -> None:
    topic = unique("spark")
    create_topic(AdminClient({"bootstrap.servers": cluster.bootstrap}), topic, 3)
    jars = ",".join(str(jar) for jar in spark_connector_jars())
    done = subprocess.run(
        [
            *(sys.executable, "-m", spark_kafka_job.__name__),
            *(jars, cluster.bootstrap, topic, str(tmp_path)),
        ],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    whole = dict.fromkeys(("records", "values", "places", "headers"), spark_kafka_job.RECORDS)
    assert json.loads((tmp_path / "seen.json").read_text()) == {"batch": whole, "stream": whole}
