"""deploy/emr packed for real: what a worker of EMR Serverless unpacks."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from lakestream_spark import __version__
from tests.support.deployment import DEPLOY, load_script

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
# As an entry of pipelines/ imports it, by the archive and by nothing else but Spark.
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import deltalake, lakestream_spark.table.iceberg, numba, psycopg2, pyiceberg
for module in (deltalake, lakestream_spark, numba, psycopg2, pyiceberg):
    assert module.__file__.startswith(sys.argv[1]), module.__file__
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the archive holds, packed for the Python of this test."""
    folder, into = (tmp_path_factory.mktemp(name) for name in ("packing", "environment"))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    submit = load_script(DEPLOY / "emr" / "submit.py")
    archive = submit.package(folder, python_version=version)
    assert archive.name == f"lakestream_spark-{__version__}-py3-none-any.tar.gz"
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")
    return into


def test_the_archive_has_the_package_and_what_it_needs_and_no_spark(unpacked: Path) -> None:
    for name in ("lakestream_spark/cli/maintain.py", "pyspark_lakestream.py", "asyncpg", "numba"):
        assert (unpacked / name).exists()
    assert [path.name for path in unpacked.glob("py[s4]*") if path.is_dir()] == []
    libraries = {path.name for path in unpacked.rglob("*.so")}
    assert not {name for name in libraries if "darwin" in name}
    assert any("x86_64-linux-gnu" in name for name in libraries)


@pytest.mark.skipif(sys.platform != "linux", reason="the archive is for Linux")
def test_a_python_finds_everything_in_the_archive(unpacked: Path) -> None:
    # -S: without the packages of this environment.
    command = [sys.executable, "-S", "-E", "-c", PROGRAM, str(unpacked)]
    done = subprocess.run(command, cwd=unpacked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
