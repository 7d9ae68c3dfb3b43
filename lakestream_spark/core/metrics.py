"""Every metric of the project by name: the one place that declares them.

A component asks once for the series it feeds (`api`, `wal`, …) and keeps it; feeding one costs
a few additions, whether anybody looks or not. `page_text` is what `/metrics` shows.
"""

from functools import cache
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from lakestream_spark.core.series import Count, Family, Level, Page, Spread

_SECONDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
_BYTES: Final = tuple(float(4096 * 4**n) for n in range(7))
_page: Final = Page()

REQUESTS: Final = _page.count("lakestream_requests_total", "Requests answered.", "api")
REQUEST_BYTES: Final = _page.count(
    "lakestream_request_bytes_total", "Bytes of requests, with their headers.", "api"
)
RESPONSE_BYTES: Final = _page.count(
    "lakestream_response_bytes_total", "Bytes of answers, with their headers.", "api"
)
REQUEST_SECONDS: Final = _page.spread(
    "lakestream_request_seconds",
    "From the whole request read to its answer encoded.",
    "api",
    bounds=_SECONDS,
)
ERRORS: Final = _page.count(
    "lakestream_errors_total", "Errors in answers, by the name of Kafka's code.", "api", "error"
)
CONNECTIONS: Final = _page.level("lakestream_connections", "Open connections of clients.")
CONNECTIONS_REFUSED: Final = _page.count(
    "lakestream_connections_refused_total", "Connections closed by the broker.", "reason"
)
REQUESTS_IN_FLIGHT: Final = _page.level(
    "lakestream_requests_in_flight", "Requests read and not answered yet."
)
BYTES_IN_FLIGHT: Final = _page.level(
    "lakestream_bytes_in_flight", "Bytes of requests read and not answered yet."
)
WAL_UPLOAD_SECONDS: Final = _page.spread(
    "lakestream_wal_upload_seconds",
    "Flushing a WAL segment to its store.",
    "profile",
    bounds=_SECONDS,
)
WAL_COMMIT_SECONDS: Final = _page.spread(
    "lakestream_wal_commit_seconds",
    "Committing a stored WAL segment, repeats included.",
    "profile",
    bounds=_SECONDS,
)
WAL_SEGMENT_BYTES: Final = _page.spread(
    "lakestream_wal_segment_bytes", "Size of WAL segments.", "profile", bounds=_BYTES
)
WAL_FAILURES: Final = _page.count(
    "lakestream_wal_failures_total", "WAL segments that failed for good.", "profile"
)
WAL_QUEUE: Final = _page.level(
    "lakestream_wal_queue_segments", "WAL segments sealed and not settled yet.", "profile"
)
WAL_BYTES_IN_FLIGHT: Final = _page.level(
    "lakestream_wal_bytes_in_flight", "Bytes of batches whose fate is not known yet.", "profile"
)
CACHE_HITS: Final = _page.reading("lakestream_wal_cache_hits_total", "Reads the cache answered.")
CACHE_MISSES: Final = _page.reading(
    "lakestream_wal_cache_misses_total", "Reads that went to the store."
)
CACHE_BYTES: Final = _page.level("lakestream_wal_cache_bytes", "Bytes the cache holds.")
HISTORY_READS: Final = _page.count(
    "lakestream_history_reads_total", "Answers out of tables, and about them.", "what"
)
HISTORY_BYTES: Final = _page.count(
    "lakestream_history_bytes_total", "Bytes of record batches served out of tables."
)
HISTORY_ROWS: Final = _page.count(
    "lakestream_history_rows_total", "Rows served out of tables, as records."
)
HISTORY_SECONDS: Final = _page.spread(
    "lakestream_history_read_seconds",
    "From a need for a table to its answer, all waiting included.",
    "what",
    bounds=_SECONDS,
)
HISTORY_WAIT_SECONDS: Final = _page.spread(
    "lakestream_history_wait_seconds",
    "Waiting of cold reads: for their share of memory, then for a thread of the reader.",
    "for",
    bounds=_SECONDS,
)
HISTORY_ERRORS: Final = _page.count(
    "lakestream_history_errors_total",
    "Reads of tables that failed; after Unavailable the client asks again.",
    "error",
)
HISTORY_STARTS: Final = _page.count(
    "lakestream_history_starts_total", "Starts of the process that reads tables."
)
HISTORY_IN_FLIGHT: Final = _page.level(
    "lakestream_history_bytes_in_flight", "Bytes asked of the reader and not answered yet."
)
HISTORY_PLAN_SECONDS: Final = _page.spread(
    "lakestream_history_plan_seconds",
    "Planning a new snapshot of a table from its manifests.",
    bounds=_SECONDS,
)
HISTORY_ROW_GROUPS: Final = _page.count(
    "lakestream_history_row_groups_total", "Row groups of Parquet files that were opened."
)
HISTORY_CACHE_HITS: Final = _page.count(
    "lakestream_history_cache_hits_total", "Blocks that were ready when somebody asked."
)
HISTORY_CACHE_WAITS: Final = _page.count(
    "lakestream_history_cache_waits_total", "Blocks that were just being made when somebody asked."
)
HISTORY_CACHE_MISSES: Final = _page.count(
    "lakestream_history_cache_misses_total", "Blocks that were made because somebody asked."
)
HISTORY_AHEAD: Final = _page.count(
    "lakestream_history_ahead_blocks_total", "Blocks that were made before anybody asked."
)
HISTORY_CACHE_BYTES: Final = _page.level(
    "lakestream_history_cache_bytes", "Bytes of blocks that the reader keeps."
)
BROKERS: Final = _page.level("lakestream_brokers", "Live brokers, as this one sees them.")
READY: Final = _page.level("lakestream_ready", "1 while /readyz says yes, else 0.")
LOOP_AGE: Final = _page.level(
    "lakestream_loop_age_seconds", "Since the last success of a background loop.", "loop"
)
LOOP_FAILURES: Final = _page.count(
    "lakestream_loop_failures_total", "Runs of a background loop that failed.", "loop"
)
TABLE_ROWS: Final = _page.count(
    "lakestream_table_rows_total", "Rows committed to the topic's table.", "topic"
)
TABLE_BYTES: Final = _page.count(
    "lakestream_table_bytes_total", "Bytes of Parquet committed to the topic's table.", "topic"
)
TABLE_FILES: Final = _page.count(
    "lakestream_table_files_total", "Files committed to the topic's table.", "topic"
)
TABLE_COMMIT_SECONDS: Final = _page.spread(
    "lakestream_table_commit_seconds",
    "Committing written files to a table, repeats included.",
    bounds=_SECONDS,
)
TABLE_LAG_SECONDS: Final = _page.level(
    "lakestream_table_lag_seconds",
    "Translation lag: age of the oldest record that is not in the table.",
    "topic",
)
TABLE_LAG_RECORDS: Final = _page.level(
    "lakestream_table_lag_records", "Records that are not in the table.", "topic"
)
TABLE_LAG_BYTES: Final = _page.level(
    "lakestream_table_lag_bytes", "Bytes of the WAL that are not in tables, of all topics."
)
TABLE_COMMIT_LAG: Final = _page.level(
    "lakestream_table_commit_lag_seconds",
    "Commit lag: how old the oldest record of the last commit was when it became visible.",
    "topic",
)
TABLE_COMMIT_AGE: Final = _page.level(
    "lakestream_table_commit_age_seconds",
    "Since the topic's last commit by this job; grows too while nothing is sent.",
    "topic",
)
TABLE_FAILURES: Final = _page.count(
    "lakestream_table_failures_total", "Commits and slices that failed.", "topic"
)
UPKEEP_MERGED_FILES: Final = _page.count(
    "lakestream_table_merged_files_total", "Small files that were merged into larger.", "topic"
)
UPKEEP_MERGED_BYTES: Final = _page.count(
    "lakestream_table_merged_bytes_total", "Bytes of small files that were merged.", "topic"
)
UPKEEP_EXPIRED_SNAPSHOTS: Final = _page.count(
    "lakestream_table_expired_snapshots_total", "Snapshots that were expired.", "topic"
)
UPKEEP_DELETED_ORPHANS: Final = _page.count(
    "lakestream_table_deleted_orphans_total", "Files that nothing needed, deleted.", "topic"
)
UPKEEP_DELETED_ORPHAN_BYTES: Final = _page.count(
    "lakestream_table_deleted_orphan_bytes_total", "Bytes of the deleted orphans.", "topic"
)
TABLE_QUARANTINED: Final = _page.count(
    "lakestream_table_quarantined_batches_total",
    "Batches whose content contradicts their header, set aside by compaction.",
    "topic",
)
UPKEEP_AGE: Final = _page.level(
    "lakestream_table_upkeep_age_seconds",
    "Since the topic was last looked after with every step done, by this job.",
    "topic",
)
UPKEEP_FAILURES: Final = _page.count(
    "lakestream_table_upkeep_failures_total", "Steps of upkeep that failed.", "topic"
)

TopicFamily: TypeAlias = Family[Count] | Family[Level]

NAMES: Final = _page.names
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_registry: Final = CollectorRegistry()
_registry.register(_page)
ProcessCollector(registry=_registry)


class ApiSeries:
    """What is counted of one API."""

    __slots__ = ("_name", "_request_bytes", "_requests", "_response_bytes", "_seconds")

    def __init__(self, name: str) -> None:
        self._name = name
        self._requests: Count = REQUESTS.of(name)
        self._request_bytes: Count = REQUEST_BYTES.of(name)
        self._response_bytes: Count = RESPONSE_BYTES.of(name)
        self._seconds: Spread = REQUEST_SECONDS.of(name)

    def answered(self, seconds: float, bytes_in: int, bytes_out: int) -> None:
        """A request of `bytes_in` was answered with `bytes_out` (0: no answer is sent)."""
        self._requests.value += 1
        self._request_bytes.value += bytes_in
        self._response_bytes.value += bytes_out
        self._seconds.observe(seconds)

    def failed(self, error: str) -> None:
        """An answer, or a partition of it, carries Kafka's error of this name."""
        ERRORS.of(self._name, error).value += 1


class WalSeries:
    """What is measured of one profile's writer."""

    __slots__ = ("commit_seconds", "failures", "segment_bytes", "upload_seconds")

    def __init__(self, profile: str) -> None:
        self.upload_seconds: Spread = WAL_UPLOAD_SECONDS.of(profile)
        self.commit_seconds: Spread = WAL_COMMIT_SECONDS.of(profile)
        self.segment_bytes: Spread = WAL_SEGMENT_BYTES.of(profile)
        self.failures: Count = WAL_FAILURES.of(profile)


@cache
def api(name: str) -> ApiSeries:
    """The series of an API; only names that are offered, so that their number stays small."""
    return ApiSeries(name)


@cache
def wal(profile: str) -> WalSeries:
    return WalSeries(profile)


def page_text() -> bytes:
    """The whole page, in Prometheus' text format."""
    return generate_latest(_registry)
