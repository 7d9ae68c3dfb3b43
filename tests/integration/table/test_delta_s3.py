"""The mirror and the sweep on a real S3 server, with the properties that pyiceberg takes."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakestream_spark.table import delta_log
from lakestream_spark.table.columns import OFFSET
from lakestream_spark.table.delta import Outcome, mirror
from lakestream_spark.table.upkeep import delta_care, orphans
from lakestream_spark.table.upkeep.folder import TableFolder
from lakestream_spark.table.upkeep.orphans import judge
from lakestream_spark.table.upkeep.policy import OrphanPolicy
from lakestream_spark.table.upkeep.references import referenced
from tests.support.delta_tables import GrowingTable, in_delta, in_iceberg
from tests.support.s3 import NEEDS_S3, S3Server, s3_catalog, s3_server

__all__ = ["s3_server"]
pytestmark = list(NEEDS_S3)


@pytest.fixture
def orders(tmp_path: Path, s3_server: S3Server) -> Iterator[GrowingTable]:
    growing = GrowingTable.new(s3_catalog(s3_server, tmp_path))
    yield growing
    growing.close()


def test_mirror_and_sweep_on_s3(orders):
    for _ in range(3):
        orders.append(0, 1)
    with ThreadPoolExecutor(3) as pool:
        racers = pool.map(lambda _: mirror(orders.table, orders.topic_id).outcome, range(3))
        assert list(racers).count(Outcome.MIRRORED) == 1
    assert in_delta(orders.log) == in_iceberg(orders.table)
    orders.table.delete(f"{OFFSET} < 3")
    assert not mirror(orders.table, orders.topic_id).full
    assert in_delta(orders.log) == in_iceberg(orders.table)

    stray = orders.write(0, 6, [b"never committed"])
    folder = TableFolder(orders.table)
    assert delta_care.care(orders.table, folder, 1) == orders.log.version()
    policy = OrphanPolicy(grace_ms=0, metadata_grace_ms=0)
    verdict = judge(folder.list(), referenced(orders.table, []), {}, 0, policy)
    assert verdict.doomed == (stray.path.removeprefix(orders.layout.location + "/"),)
    assert folder.delete(verdict.doomed) == 1
    assert verdict.doomed[0] not in folder.list()
    folder.write_note(orphans.NOTE, {"a": 1})
    assert folder.read_note(orphans.NOTE) == {"a": 1}
    assert in_delta(orders.log) == in_iceberg(orders.table)


def test_secrets_come_from_the_catalog_and_writes_are_conditional(orders):
    options = delta_log.options(orders.table)
    assert options["aws_conditional_put"] == "etag"
    assert options["allow_http"] == "true"
    assert options["aws_access_key_id"] == orders.spec.properties["s3.access-key-id"]
