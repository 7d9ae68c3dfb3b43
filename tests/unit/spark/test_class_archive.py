"""The maker of the archive believes a JVM only if it ended well."""

import subprocess
import sys

import pytest

from lakestream_spark.spark.class_archive import ended


def test_a_jvm_that_failed_has_made_no_archive() -> None:
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(0)"]) as well:
        ended(well)
    with (
        subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"]) as failed,
        pytest.raises(subprocess.CalledProcessError, match="exit status 3"),
    ):
        ended(failed)
