"""lakestream-spark: one stream, written once, that is a live Kafka stream and an open table.

The packages are the path of a record, and each imports only those above it:

    core          words everyone uses: ids, errors, clock, retry
    kafka         bytes of the protocol: record batches, records, codecs
    objectstore   open(url), every object key in one file, retrying
    wal           WAL segments: format, writer, reader, reclaim
    metadata      the sequencer and its SQL on SQLite and PostgreSQL
    groups        consumer groups: state machine, coordinator, committed offsets
    table         columns, layout, commit protocol
    history       offsets read back from Parquet as a Kafka stream
    verify        stream and table compared, down to a certificate
    ingress       the Kafka broker        spark   the compaction job
    settings, app, cli   settings -> components -> process
    reading       settings -> what is read in Spark

In Spark: `lakestream_spark.read(spark, "orders")` is a topic as one DataFrame, `view` the same for
SQL, `session` a local session for both. They are loaded when they are first used, because a broker
needs no pyspark.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakestream_spark.reading import read, session, view

__version__ = "0.1.0"
__all__ = ["read", "session", "view"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from lakestream_spark import reading
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        install = "pip install 'lakestream-spark[spark]'"
        message = f"lakestream_spark.{name} needs pyspark: {install}"
        raise ModuleNotFoundError(message, name="pyspark") from error
    return getattr(reading, name)
