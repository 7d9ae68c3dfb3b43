"""Apache Kafka's published jars, resolved once into the user's cache by Spark's own resolver.

What always holds: a folder of the cache is complete or absent, and another set has another name.
"""

import os
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from lakestream_spark.spark.jars import require_java, require_pyspark
from tests.support.fetching import cache_folder, one_at_a_time, run_patiently

KAFKA_VERSION: Final = "4.3.1"

SERVER_AND_TOOLS: Final = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
)

# The token provider of 4.1.3 cannot be resolved, an earlier one can: each is fetched on its own.
SPARK_CONNECTOR: Final = ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",)
TOKEN_PROVIDER: Final = ("org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",)
_SHIPPED_WITH_SPARK: Final = (
    "com.google.code.findbugs:*",
    "org.apache.hadoop:*",
    "org.lz4:*",
    "org.scala-lang.modules:*",
    "org.slf4j:*",
    "org.xerial.snappy:*",
)


def kafka_classpath() -> str:
    """The class path of the server and the tools."""
    # Spark's resolver leaves out Scala's own library, because Spark ships with it.
    scala = require_pyspark() / "jars" / "scala-library-*.jar"
    jars = [*fetched(SERVER_AND_TOOLS), *scala.parent.glob(scala.name)]
    return os.pathsep.join(str(jar) for jar in jars)


def spark_connector_jars() -> list[Path]:
    """The jars of Spark's own `kafka` source and sink."""
    without_tokens = TOKEN_PROVIDER[0].rpartition(":")[0]
    return [
        *fetched(SPARK_CONNECTOR, (*_SHIPPED_WITH_SPARK, without_tokens)),
        *fetched(TOKEN_PROVIDER, (*_SHIPPED_WITH_SPARK, "org.apache.kafka:*")),
    ]


def fetched(coordinates: Sequence[str], exclude: Sequence[str] = ()) -> list[Path]:
    """The jars of these artifacts with their dependencies; quick when they are in the cache."""
    name = sha256("\n".join([*coordinates, "without", *exclude]).encode()).hexdigest()[:12]
    folder = cache_folder() / "kafka-jars" / name
    if not folder.is_dir():
        with one_at_a_time(folder.parent):
            if not folder.is_dir():
                with TemporaryDirectory(prefix="resolving-", dir=folder.parent) as scratch:
                    _fetch(coordinates, exclude, Path(scratch)).rename(folder)
    return sorted(folder.glob("*.jar"))


def _fetch(coordinates: Sequence[str], exclude: Sequence[str], scratch: Path) -> Path:
    require_java()
    home = require_pyspark()
    program = scratch / "nothing.py"
    program.touch()
    excluded = ("--exclude-packages", ",".join(exclude)) if exclude else ()
    done = run_patiently(
        [
            str(home / "bin" / "spark-submit"),
            *("--master", "local[1]", "--conf", f"spark.jars.ivy={scratch}"),
            *("--packages", ",".join(coordinates), *excluded),
            str(program),
        ],
        env=os.environ | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, f"{coordinates} could not be fetched: {done.stderr[-2000:]}"
    return scratch / "jars"
