"""franz-go: the scripts of `tests/compat/franz`."""

import json
import subprocess
from typing import Any

from tests.compat.clusters import Cluster, unique
from tests.support.franz import franz_binary


def run(script: str, cluster: Cluster) -> Any:
    done = subprocess.run(
        [str(franz_binary()), script, cluster.bootstrap, unique("franz")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_records_of_every_codec_come_back_in_order(cluster: Cluster) -> None:
    assert run("produce-consume", cluster) == {"records": 500, "in order": True}


def test_a_group_commits_and_goes_on(cluster: Cluster) -> None:
    assert run("group", cluster) == {"first offsets": [0, 50]}


def test_a_topic_is_administered(cluster: Cluster) -> None:
    assert run("admin", cluster) == {
        "made twice": True,
        "partitions": 4,
        "records": 100,
        "retention": "60000",
        "deleted": True,
    }
