"""Folders and Spark masters elsewhere do not go together."""

import pytest

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.spark.remote import refuse_disks

ELSEWHERE = [
    "spark://10.0.0.7:7077",
    "spark://localhost.example.org:7077",
    "spark://127.0.0.1:7077,10.0.0.7:7077",
    "yarn",
    "k8s://https://10.0.0.7:6443",
]
HERE = ["local", "local[2]", "local[*, 4]", "local-cluster[2,1,512]"]
LOOPBACK = ["spark://127.0.0.1:7077", "spark://localhost:7077", "spark://[::1]:7077"]


@pytest.mark.parametrize("place", ["file:///data/warehouse", "file:/data", "/data/warehouse"])
@pytest.mark.parametrize("master", ELSEWHERE)
def test_a_folder_is_refused_by_its_setting_when_the_master_is_elsewhere(
    master: str, place: str
) -> None:
    with pytest.raises(Misconfigured, match=r"^catalog.warehouse is a folder") as refused:
        refuse_disks(master, {"store.url": "s3://bucket/wal", "catalog.warehouse": place})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("master", [*HERE, *LOOPBACK])
def test_a_folder_is_fine_on_this_host(master: str) -> None:
    refuse_disks(master, {"catalog.warehouse": "file:///data/warehouse"})


@pytest.mark.parametrize("master", ELSEWHERE)
def test_a_bucket_is_fine_everywhere(master: str) -> None:
    refuse_disks(master, {"store.url": "s3://bucket", "catalog.warehouse": "gs://b/warehouse"})
