"""The metadata store: the sequencer and its SQL, on SQLite and PostgreSQL with one code path.

Owns the tables in `schema` and every statement on them: topics and their partitions, the extent
index, producers, WAL writers and their epochs, leases, table ends with plans and intents,
retention. It implements the ports that `wal` declares.

What always holds
- a transaction is written once, as a generator of statements (`database`), for both stores;
- offsets of a partition are dense: committed extents tile [table end, high watermark);
- log start, table end and high watermark never move back;
- an epoch or a lease that was fenced changes nothing any more;
- rows are locked in one order: lease, writer, topic, partitions by id, segments by id.
"""

from lakestream_spark.metadata.store import Metadata, open_metadata

__all__ = ["Metadata", "open_metadata"]
