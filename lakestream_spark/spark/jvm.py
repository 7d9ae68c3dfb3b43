"""How the JVM of a local Spark is started: for work that is planned there and done elsewhere.

Data never passes through the JVM on its way to a table, so its time goes into loading Spark's
classes and into compiling what runs a few hundred times. Two answers: an archive of the loaded
classes, made once for an installation by `spark.class_archive`, and an optimizing compiler that
waits for what is truly hot. Without an archive, or with one that does not fit, Spark starts all the
same, only later.
"""

import os
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Final

from lakestream_spark.spark.jars import cache_base, require_pyspark

COMPILING: Final = (
    "-XX:+UseSerialGC",
    # Ten times Java's own thresholds: a merge still gets there, planning a batch does not.
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)


def jvm_options() -> list[str]:
    """For the driver of a local Spark."""
    return [*COMPILING, *_archive_options()]


def archive_path() -> Path | None:
    """Where the archive of this Java and this pyspark is, or would be; None without a Java."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        return None
    java = Path(found).resolve()
    about = f"{java} {java.stat().st_mtime_ns} {require_pyspark()}"
    return cache_base() / "classes" / f"{sha256(about.encode()).hexdigest()[:12]}.jsa"


def _archive_options() -> list[str]:
    archive = archive_path()
    if archive is None or not archive.is_file():
        return []
    # Said of an archive that does not fit, which is then not used.
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
