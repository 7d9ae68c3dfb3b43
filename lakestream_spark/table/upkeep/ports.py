"""What upkeep needs from others: somebody who rewrites files, and the metadata store's services."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from lakestream_spark.core.ids import TopicId, TopicPartition
from lakestream_spark.metadata.cells import Ledger, TableChange
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.problems import Problem
from lakestream_spark.metadata.tables import Intent, Quarantined
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.in_step import Known


class Rewritten(NamedTuple):
    """What a rewrite did."""

    files_before: int
    files_after: int
    bytes_read: int


class Rewriter(Protocol):
    """Rewrites the files of a table; rows stay as they are and in offset order. Calls block.

    Raises `Unavailable` when nothing was changed, because somebody else's commit came between.
    """

    def merge(
        self, identifier: Sequence[str], *, target_bytes: int, where: str, most_bytes: int
    ) -> Rewritten: ...

    def settle_deletes(self, identifier: Sequence[str]) -> Rewritten: ...

    def gather_manifests(self, identifier: Sequence[str]) -> int: ...


class TopicList(Protocol):
    async def list(self) -> list[Topic]: ...


class Intents(Protocol):
    async def intent(self, topic_id: TopicId) -> Intent | None: ...

    async def ends(self, topic_id: TopicId) -> Known: ...

    async def quarantined(self, topic_id: TopicId) -> Sequence[Quarantined]: ...


class ChangeLedger(Protocol):
    async def ledger(self, topic_id: TopicId) -> Ledger: ...

    async def record(self, topic_id: TopicId, change: TableChange) -> None: ...

    async def forget(self, topic_id: TopicId, snapshot_id: int) -> None: ...


class LogStarts(Protocol):
    async def delete_records(self, partition: TopicPartition, before_offset: int) -> int: ...


class ProblemList(Protocol):
    async def list(self, topic_id: TopicId | None = None) -> list[Problem]: ...

    async def report(self, lease: Lease, problem: Problem) -> None: ...

    async def clear(self, lease: Lease, topic_id: TopicId) -> None: ...


class LeaseStore(Protocol):
    async def try_acquire(self, name: str, holder: str, session_s: float) -> Lease | None: ...

    async def renew(self, lease: Lease) -> None: ...

    async def release(self, lease: Lease) -> None: ...
