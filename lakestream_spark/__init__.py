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
    ingress       the Kafka broker        spark   the compaction job
    settings, app, cli   settings -> components -> process
"""

__version__ = "0.1.0"
