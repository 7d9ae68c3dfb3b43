"""What Spark needs on this machine, as `lakestream doctor` looks for it."""

import re
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from typing import Final

from lakestream_spark.cli.ailments import Sick
from lakestream_spark.spark.jars import jar_paths, require_java, require_pyspark, s3_jar_paths
from lakestream_spark.spark.jvm import archive_path

_COMPACTION: Final = "only brokers run without it"
_VERSION: Final = re.compile(r'version "([^"]+)"')


def java() -> str:
    found = require_java()
    said = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = _VERSION.search(said.stderr + said.stdout)
    return f"{version[1] if version else 'of an unknown version'} in {found}"


def pyspark() -> str:
    home = require_pyspark()
    return f"{version('pyspark')} in {home}"


def jars() -> str:
    found = jar_paths()
    archive = archive_path()
    if archive is None or not archive.is_file():
        raise Sick(
            f"{len(found)} jars, but Spark's classes are not archived: it starts slowly",
            "run `python -m lakestream_spark.spark.jars`",
        )
    return f"{len(found)} jars and an archive of Spark's classes"


def s3_jars() -> str:
    found = s3_jar_paths()
    if not found:
        raise Sick(
            "Spark cannot read or merge tables on S3 without them",
            "run `python -m lakestream_spark.spark.jars --s3`",
        )
    return f"{len(found)} jars"


def kernels() -> str:
    missing = [name for name in ("numba", "deltalake") if find_spec(name) is None]
    if missing:
        raise Sick(
            f"{' and '.join(missing)} missing ({_COMPACTION})",
            "run `pip install 'lakestream-spark[spark]'`, or [jobs] where Spark is already there",
        )
    return "numba and deltalake are there"
