"""What `lakestream status` knows of a topic, as values."""

from dataclasses import asdict, dataclass
from typing import Any

from lakestream_spark.metadata.lateness import is_late


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """What lies in the store for a table."""

    files: int = 0
    bytes: int = 0
    median_bytes: int = 0
    retained_bytes: int = 0
    """Files that only older snapshots need, or nobody any more."""
    last_commit_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """One topic; offsets are sums over its partitions."""

    topic: str
    partitions: int
    high_watermark: int
    table_end: int
    lag_records: int
    lag_seconds: float
    lag_target_seconds: float
    wal_bytes: int
    table: TableSize | None
    """None when the catalog does not tell."""
    problems: tuple[str, ...]
    quarantined: int = 0
    """Batches that were set aside because their content contradicts their header."""

    @property
    def is_red(self) -> bool:
        return bool(self.problems)

    @property
    def is_late(self) -> bool:
        return is_late(self.lag_ms, self.lag_target_ms)

    @property
    def lag_ms(self) -> int:
        return round(1000 * self.lag_seconds)

    @property
    def lag_target_ms(self) -> int:
        return round(1000 * self.lag_target_seconds)

    @property
    def state(self) -> str:
        if self.is_red:
            return "red"
        return "late" if self.is_late else "well"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "state": self.state}
