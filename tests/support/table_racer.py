"""A process that appends to one table as often as it can, for tests with two of them.

    python -m tests.support.table_racer FOLDER TOPIC_ID UP_TO

Each tries to be the one that moves the end of partition 0 on by one, until it has reached UP_TO;
prints how often it was. It holds no lease: the table alone must keep the two apart.
"""

import sys
from pathlib import Path
from uuid import UUID

from lakestream_spark.core.errors import Transient
from lakestream_spark.core.ids import TopicId
from lakestream_spark.table.append import TableState, Verdict
from lakestream_spark.table.iceberg import StreamCatalog
from tests.support.embedded import catalog_spec
from tests.support.stream_tables import StreamTable
from tests.support.tables import TableFiles


def race(folder: Path, topic_id: UUID, up_to: int) -> int:
    """How many of the commits were this one's."""
    tables = StreamCatalog.open(catalog_spec(folder))
    layout = tables.layout(TopicId(topic_id), "orders")
    stream = StreamTable(tables=tables, files=TableFiles(folder=folder, layout=layout))
    won = 0
    try:
        while TableState.of(stream.load()).ends.get(0, 0) < up_to:
            append = stream.next_append(1)
            while True:
                try:
                    won += stream.tables.append(layout, append) is Verdict.APPLY
                except Transient:
                    continue
                break
    finally:
        tables.close()
    return won


if __name__ == "__main__":
    print(race(Path(sys.argv[1]), UUID(sys.argv[2]), int(sys.argv[3])))
