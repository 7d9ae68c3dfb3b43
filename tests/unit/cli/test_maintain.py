"""`lakestream maintain`, as a process: a round that has nothing to rewrite starts no JVM."""

import subprocess
import sys
from pathlib import Path

import pytest

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.metadata import open_metadata
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.delta_tables import GrowingTable, in_delta, in_iceberg
from tests.support.embedded import catalog_spec, metadata_url

ROOT = Path(__file__).parents[3]


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.long
async def test_one_round_mirrors_and_says_so_without_a_jvm(tmp_path):
    metadata = await open_metadata(metadata_url(tmp_path), clock=SystemClock())
    config = {"lakestream.table.formats": "iceberg,delta"}
    topic = await metadata.topics.create("orders", config=config)
    await metadata.topics.create("other")
    await metadata.close()
    catalog = StreamCatalog.open(catalog_spec(tmp_path))
    layout = catalog.layout(topic.id, topic.name)
    orders = GrowingTable(spec=catalog_spec(tmp_path), catalog=catalog, layout=layout)
    orders.append(0)

    done = run("-m", "lakestream_spark", "maintain", "--once", "--data", tmp_path, "--topics", "o*")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("orders: 2 tags; 1 files added to Delta")
    assert lines[1] == "other: nothing to do"
    assert "Spark" not in done.stderr
    assert in_delta(orders.log) == in_iceberg(orders.table)
    catalog.close()


@pytest.mark.long
def test_the_spark_submit_entry_is_short_and_has_help():
    entry = ROOT / "pipelines" / "maintain.py"
    assert len(entry.read_text().splitlines()) <= 60
    done = run(entry, "--help")
    assert done.returncode == 0
    assert "--topics" in done.stdout
