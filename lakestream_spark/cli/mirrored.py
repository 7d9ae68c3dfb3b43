"""Whether Delta has what the stream's table was asked to have."""

from collections.abc import Mapping

from lakestream_spark.metadata.backlog import reached
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table import delta_changes, delta_log
from lakestream_spark.table.iceberg import StreamCatalog


def is_mirrored(catalog: StreamCatalog, topic: Topic, wanted: Mapping[int, int]) -> bool:
    """Whether a reader of Delta sees the rows below the wanted ends, which the table has.

    Blocks. Raises what keeps the table or its Delta log from being read.
    """
    table = catalog.load(catalog.layout(topic.id, topic.name, topic.config))
    snapshot = None if table is None else table.current_snapshot()
    if table is None or snapshot is None:
        return True  # No rows: whatever there was has been set aside.
    log = delta_log.open_log(table)
    mirrored = None if log is None else delta_log.marks(log, topic.id).sequence_number
    if mirrored is None:
        return False
    if mirrored >= (snapshot.sequence_number or 0):
        return True
    # What came to the table since may be nothing that was waited for.
    return reached(delta_changes.ends_when_mirrored(table, mirrored), wanted)
