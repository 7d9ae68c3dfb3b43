"""What the figures were measured with."""

import re
import subprocess
from functools import cache
from importlib.metadata import version

from lakestream_spark.spark.jars import require_java
from tests.support.kafka_jars import KAFKA_VERSION

_PACKAGES = (
    "pyspark",
    "delta-spark",
    "pyiceberg",
    "pyarrow",
    "confluent-kafka",
    "obstore",
    "kio",
    "numba",
    "duckdb",
)


@cache
def versions() -> dict[str, str]:
    """Names and versions of the libraries, of Java and of Apache Kafka, the peer."""
    found = {name: version(name) for name in _PACKAGES}
    said = subprocess.run(
        [require_java(), "-version"], capture_output=True, text=True, check=False
    ).stderr
    number = re.search(r'version "([^"]+)"', said)
    return found | {"Java": number[1] if number else "?", "Apache Kafka": KAFKA_VERSION}
