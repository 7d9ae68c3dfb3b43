"""`lakestream maintain`, as a process: a round that has nothing to rewrite starts no JVM."""

import subprocess
import sys
from pathlib import Path

import pytest

from lakestream_spark.cli.jobs import maintain_job
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.metadata import open_metadata
from lakestream_spark.settings import Entry, Settings, load
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


def settings(*assignments: tuple[str, str]) -> Settings:
    entries = [Entry(key=key, value=value, origin="test") for key, value in assignments]
    return load(environ={}, flags=entries).settings


def test_the_settings_say_how_often_unless_the_caller_does():
    own = settings(("maintain.interval_ms", "5000"), ("maintain.snapshots_kept", "9"))
    job = maintain_job(own)
    assert job.every_s == 5.0
    assert job.policy.snapshots.newest == 9
    assert maintain_job(own, every_s=2.0).every_s == 2.0


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "selects"), [("compact", "--topics"), ("maintain", "--topics"), ("verify", "TOPIC")]
)
def test_the_spark_submit_entries_are_short_and_have_help(name, selects):
    entry = ROOT / "pipelines" / f"{name}.py"
    assert len(entry.read_text().splitlines()) <= 60
    done = run(entry, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Usage: {name}.py [OPTIONS]")
    for option in ("--data", "--conf", "--set", selects, "--admin-port"):
        assert option in done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "flags", "sentence"),
    [
        ("compact", ("--conf", "no-such.toml"), "lakestream: the settings file cannot be read: "),
        ("maintain", ("--set", "catalog.nme=x"), "lakestream: --set catalog.nme: there is no "),
    ],
)
def test_an_error_of_a_spark_submit_entry_is_one_sentence(name, flags, sentence):
    done = run(ROOT / "pipelines" / f"{name}.py", *flags)
    assert done.returncode == 2
    assert done.stderr.startswith(sentence)
    assert len(done.stderr.splitlines()) == 1
