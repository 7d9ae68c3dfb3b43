"""The status page on a broker's admin port, and the JSON that it is made of.

    browser ─► site (who may ask, which headers) ─► status ─► metadata store
                                                 ├► tables ─► the process that reads tables
                                                 └► records ─► WAL or table

GET only; every answer under `/api` is JSON, for scripts as well:
- `/api/status`: `now_ms`, `node_id`, and the lists `topics`, `groups`, `brokers`, `jobs` and
  `problems`. Offsets of a topic are sums over its partitions; `records_per_s` and `bytes_per_s` are
  those of the last seconds, null until they are known; `quarantined` counts the batches that were
  set aside; it and `table` are null until the table was looked at. A table that nobody brings on is
  a problem as well, as `lakestream status` says it.
- `/api/topic?topic=T`: the borders of every partition, the topic's settings, and its table with
  the newest snapshots.
- `/api/record?topic=T&partition=P&offset=N`: the first record at the offset or after it; with
  `&toward=previous` the last one at the offset or before it. `source` is `wal` or `table`. Key,
  value and header values are null or an object: `size` in bytes, `text` (null unless it is UTF-8),
  `json` (the same, indented, if it is JSON), `hex`, and `cut` when only the beginning is shown.

What cannot be answered is `{"error": "one sentence"}` with 400 (fix the question), 401 or 403 (who
may ask), 404 (no such thing) or 503 (a store does not answer; try again).

What always holds: the page changes nothing; a loopback port answers only to loopback names, and any
other only to those who know the token; nothing is loaded from elsewhere; whatever clients sent is
shown as text; all open pages share one look at the stores, a second apart at least, and while no
page is open nothing is looked at; a store that is away costs an answer some seconds at most.
"""

from lakestream_spark.console.access import Access
from lakestream_spark.console.parts import Parts
from lakestream_spark.console.site import StatusPage

__all__ = ["Access", "Parts", "StatusPage"]
