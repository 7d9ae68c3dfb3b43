"""The jars a Spark session needs, resolved once into a cache by Spark's own resolver.

`python -m lakestream_spark.spark.jars` fills the cache; `jar_paths()` then gives local files for
`spark.jars`, so that a session starts without asking any repository. With `--s3` it fetches what
Spark needs to rewrite tables on S3 as well. What always holds: a folder of the cache is complete or
absent (it is filled aside and renamed), and another set of jars has another name.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from lakestream_spark.core.errors import Misconfigured, Unavailable

COORDINATES = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.xerial:sqlite-jdbc:3.53.4.0",
    "org.postgresql:postgresql:42.7.8",
)

S3_COORDINATES = ("org.apache.iceberg:iceberg-aws-bundle:1.12.0",)

SHIPPED_WITH_SPARK = (
    # A second version beside the one Spark ships with breaks it, and doubles the download.
    "com.fasterxml.jackson*:*",
    "com.github.luben:*",
    "com.google.code.findbugs:*",
    "commons-logging:*",
    "commons-pool:*",
    "io.airlift:*",
    "javax.annotation:*",
    "org.antlr:*",
    "org.apache.hadoop:*",
    "org.apache.logging.log4j:*",
    "org.apache.parquet:*",
    "org.checkerframework:*",
    "org.locationtech.jts:*",
    "org.roaringbitmap:*",
    "org.slf4j:*",
    "org.xerial.snappy:*",
)

JAVA_HINT = (
    "Spark needs Java 17 or newer: install it with `apt-get install openjdk-17-jre-headless` "
    "(Debian, Ubuntu) or `brew install openjdk@17` (macOS), or set JAVA_HOME"
)
PYSPARK_HINT = "pyspark is not installed: `pip install 'lakestream-spark[spark]'`"


def require_java() -> Path:
    """The `java` that Spark will start; raises `Misconfigured` with a hint if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        raise Misconfigured(JAVA_HINT, found="no java")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = java_version(answer.stderr + answer.stdout)
    if version < 17:
        raise Misconfigured(JAVA_HINT, found=f"{java}, version {version or 'unknown'}")
    return Path(java)


def java_version(text: str) -> int:
    """The feature version in what `java -version` prints; 0 if there is none."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else 0


def require_pyspark() -> Path:
    """The folder of pyspark; raises `Misconfigured` with a hint if it is not installed."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Misconfigured(PYSPARK_HINT)
    return Path(spec.origin).parent


def cache_base() -> Path:
    """The folder of everything that is made once for an installation."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lakestream"


def cache_folder(coordinates: Sequence[str] | None = None) -> Path:
    """The folder of a set of jars; of those that every session has unless others are named."""
    about = [*(coordinates or COORDINATES), *SHIPPED_WITH_SPARK]
    return cache_base() / "jars" / sha256("\n".join(about).encode()).hexdigest()[:12]


def jar_paths() -> list[Path]:
    """The local jars for `spark.jars`; raises `Misconfigured` when they were never resolved."""
    folder = cache_folder()
    if not folder.is_dir():
        raise Misconfigured(
            "the Spark jars are missing: `python -m lakestream_spark.spark.jars` fetches them once",
            folder=folder,
        )
    return sorted(folder.glob("*.jar"))


def s3_jar_paths() -> list[Path]:
    """What Spark needs beside for tables on S3; nothing when it was never fetched."""
    return sorted(cache_folder(S3_COORDINATES).glob("*.jar"))


def resolve(coordinates: Sequence[str] | None = None) -> list[Path]:
    """Make sure a set of jars is in the cache and return it; quick when it is."""
    wanted = coordinates or COORDINATES
    folder = cache_folder(wanted)
    if not folder.is_dir():
        require_java()
        home = require_pyspark()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="resolving-", dir=folder.parent) as scratch:
            _publish(_download(home, Path(scratch), wanted), folder)
    return sorted(folder.glob("*.jar"))


def _download(spark_home: Path, scratch: Path, coordinates: Sequence[str]) -> Path:
    """Let spark-submit run an empty program with our packages; returns the folder of jars."""
    program = scratch / "nothing.py"
    program.touch()
    command = [
        str(spark_home / "bin" / "spark-submit"),
        *("--master", "local[1]"),
        *("--conf", f"spark.jars.ivy={scratch}"),
        *("--exclude-packages", ",".join(SHIPPED_WITH_SPARK)),
        *("--packages", ",".join(coordinates)),
        str(program),
    ]
    environment = os.environ | {"SPARK_HOME": str(spark_home), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        log = scratch.parent / "last-failure.log"
        log.write_text(done.stdout + done.stderr, encoding="utf-8")
        raise Unavailable(
            "the Spark jars could not be fetched; is the network, or a mirror named by "
            "DEFAULT_ARTIFACT_REPOSITORY, reachable?",
            log=log,
        )
    return scratch / "jars"


def _publish(jars: Path, folder: Path) -> None:
    try:
        jars.rename(folder)
    except OSError:
        # Another process was first; a rename never replaces a folder that has files.
        if not folder.is_dir():
            raise


def _archive_classes() -> None:
    """Spark starts in half the time when its classes are archived; without, it starts as well."""
    # Here and not above: it needs a Spark session, which needs the jars.
    from lakestream_spark.spark.jvm import archive_path

    archive = archive_path()
    if archive is not None and not archive.is_file():
        sys.stderr.write(f"Archiving Spark's classes once (about 160 MB) into {archive} ...\n")
        from lakestream_spark.spark.class_archive import build

        build()


def _fetch(what: str, megabytes: int, coordinates: Sequence[str]) -> None:
    """Say so, when something is to be fetched."""
    folder = cache_folder(coordinates)
    if folder.is_dir():
        return
    require_java()
    require_pyspark()
    sys.stderr.write(f"Fetching {what} once (about {megabytes} MB) into {folder} ...\n")
    found = resolve(coordinates)
    size = sum(path.stat().st_size for path in found) / 1e6
    sys.stderr.write(f"{len(found)} jars, {size:.0f} MB.\n")


def main(arguments: Sequence[str] = ()) -> int:
    """Fetch the jars if needed and say what happens; with `--s3` those for tables on S3 too."""
    if [word for word in arguments if word != "--s3"]:
        sys.stderr.write("usage: python -m lakestream_spark.spark.jars [--s3]\n")
        return 2
    try:
        _fetch("the Spark jars", 75, COORDINATES)
        if arguments:
            _fetch("what Spark needs for S3", 70, S3_COORDINATES)
        _archive_classes()
    except (Misconfigured, Unavailable) as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, Misconfigured) else 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
