"""Producer ids, and the expiry of what is remembered of producers (`producer.id.expiration.ms`)."""

from lakestream_spark.core.ids import ProducerId
from lakestream_spark.metadata import counters
from lakestream_spark.metadata.database import Database, Fetch, Transaction


class Producers:
    """Hands out producer ids, each once, and forgets producers that were silent for long."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def allocate(self) -> ProducerId:
        """A producer id nobody has."""
        return ProducerId(await self._database.run(counters.take(counters.PRODUCER)))

    async def expire(self, *, before_ms: int, limit: int) -> int:
        """Forget at most `limit` producers of partitions, silent since `before_ms`; how many."""
        return await self._database.run(_expire(before_ms, limit))


def _expire(before_ms: int, limit: int) -> Transaction[int]:
    # SKIP LOCKED: a producer that is being written to now is not silent, and nobody waits for it.
    rows = yield Fetch(
        "DELETE FROM producers WHERE (partition_id, producer_id) IN ("
        "SELECT partition_id, producer_id FROM producers WHERE last_ms < $1 "
        "LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING producer_id",
        (before_ms, limit),
    )
    return len(rows)
