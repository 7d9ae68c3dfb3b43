"""pipelines/: short entries for spark-submit that say what they take without starting Spark."""

import pytest
from click.testing import CliRunner

from tests.support.deployment import ROOT, check_command, load_script

ENTRIES = sorted((ROOT / "pipelines").glob("*.py"))
CALLED = {
    "compact": ["--data", "s3://b/lake", "--topics", "orders*", "--trigger", "available-now"],
    "maintain": ["--data", "s3://b/lake", "--once"],
    "silver": ["--data", "s3://b/lake", "--checkpoint", "c", "--trigger", "available-now"],
    "verify": ["orders", "--data", "s3://b/lake", "--json"],
}


def test_every_entry_is_called_here():
    assert [path.stem for path in ENTRIES] == sorted(CALLED)


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_is_short_and_helps(path):
    assert len(path.read_text().splitlines()) <= 60
    command = getattr(load_script(path), path.stem)
    done = CliRunner().invoke(command, ["--help"])
    assert done.exit_code == 0
    assert "--data" in done.output
    check_command(CALLED[path.stem], command)
