"""Numbers that are never handed out twice, one row each."""

from typing import Final

from lakestream_spark.metadata.database import Fetch, Transaction

EPOCH: Final = "epoch"
PRODUCER: Final = "producer"
PLAN: Final = "plan"


def take(name: str, count: int = 1) -> Transaction[int]:
    """The last of the next `count` numbers (from 1); its row stays locked until the end."""
    rows = yield Fetch(
        "INSERT INTO counters (name, value) VALUES ($1, $2) "
        "ON CONFLICT (name) DO UPDATE SET value = counters.value + $2 RETURNING value",
        (name, count),
    )
    return int(rows[0][0])


def last(name: str) -> Transaction[int]:
    """The last number handed out, 0 if none was."""
    rows = yield Fetch("SELECT value FROM counters WHERE name = $1", (name,))
    return int(rows[0][0]) if rows else 0
