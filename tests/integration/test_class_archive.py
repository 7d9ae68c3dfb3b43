"""The archive of Spark's classes: Java takes it, and one of another Java does no harm."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

_PROGRAM: Final = """
import sys
from pathlib import Path
from lakestream_spark.spark.session import LOG_OPTION, local_session
from tests.support.embedded import catalog_spec

spark = local_session(
    catalog_spec(Path(sys.argv[1])),
    more={"spark.driver.extraJavaOptions": " ".join([LOG_OPTION, *sys.argv[2:]])},
)
assert spark.range(3).count() == 3
spark.stop()
"""


def spark_starts(folder: Path, *options: str) -> bool:
    """Whether a session with these options of the JVM works, in a process of its own."""
    command = [sys.executable, "-c", _PROGRAM, str(folder), "-XX:+UseSerialGC", *options]
    return subprocess.run(command, timeout=300, check=False).returncode == 0


def test_java_takes_the_archive_and_starts_without_one_that_does_not_fit(tmp_path: Path) -> None:
    archive = tmp_path / "classes.jsa"
    command = [sys.executable, "-m", "lakestream_spark.spark.class_archive", str(archive)]
    subprocess.run(command, timeout=300, check=True, capture_output=True)
    # With `on` Java ends when it cannot use the archive; by default it goes on without.
    assert spark_starts(tmp_path, f"-XX:SharedArchiveFile={archive}", "-Xshare:on")
    other = tmp_path / "other.jsa"
    other.write_bytes(b"not of this Java" * 4096)
    assert spark_starts(tmp_path, f"-XX:SharedArchiveFile={other}")
