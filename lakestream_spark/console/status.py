"""Everything the page shows at once: one look at the metadata store for all who ask.

What always holds: nothing here waits for a table or a catalog; topics are in the order of their
names; numbers of a topic are sums over its partitions; a topic is red for the same reasons as in
`lakestream status`, as soon as this broker has seen for some seconds which jobs live.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from lakestream_spark.console.parts import Parts
from lakestream_spark.console.rates import Rate, Rates
from lakestream_spark.console.tables import TableWatch
from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.ids import TopicId
from lakestream_spark.history.about import TableFacts
from lakestream_spark.metadata.backlog import TopicBacklog
from lakestream_spark.metadata.jobs import Job
from lakestream_spark.metadata.lateness import is_late
from lakestream_spark.metadata.overview import GroupNow, PartitionNow
from lakestream_spark.metadata.problems import Problem
from lakestream_spark.metadata.stalls import Stall, stall_of
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.wal.ports import PartitionEnds

_SILENT_S: Final = 30.0
_SILENT_ROUNDS: Final = 3
_NO_ENDS: Final = PartitionEnds(0, 0, 0, 0)


class _Look(NamedTuple):
    """What the store said."""

    now_ms: int
    ends: Mapping[TopicId, PartitionEnds]
    rates: Mapping[TopicId, Rate]
    backlog: Mapping[TopicId, TopicBacklog]
    problems: Sequence[Problem]
    jobs: Sequence[Job]
    live: Sequence[Job]

    def lag_ms(self, topic: Topic) -> int:
        backlog = self.backlog.get(topic.id)
        return 0 if backlog is None else max(0, self.now_ms - backlog.oldest_ms)

    def with_stalls(self, topics: Sequence[Topic]) -> Self:
        """With a problem for each topic that is stalled while nothing else is wrong with it."""
        red = {problem.topic_id for problem in self.problems}
        stalls = [(topic, self._stall(topic)) for topic in topics if topic.id not in red]
        new = [
            Problem(topic.id, None, stall.sentence, stall.remedy, self._late_since_ms(topic))
            for topic, stall in stalls
            if stall is not None
        ]
        return self._replace(problems=[*self.problems, *new])

    def _stall(self, topic: Topic) -> Stall | None:
        return stall_of(topic.name, self.lag_ms(topic), _target_ms(topic), self.live, self.now_ms)

    def _late_since_ms(self, topic: Topic) -> int:
        return self.now_ms - self.lag_ms(topic) + _target_ms(topic)


class Status:
    """The list of everything."""

    def __init__(self, parts: Parts, tables: TableWatch) -> None:
        self._parts = parts
        self._tables = tables
        self._rates = Rates()

    async def all(self) -> dict[str, Any]:
        """As it is now; raises what the metadata store raises."""
        metadata = self._parts.metadata
        topics = await metadata.topics.list()
        look = (await self._look()).with_stalls(topics)
        self._tables.look(topics, {key: ends.table_end for key, ends in look.ends.items()})
        names = {topic.id: topic.name for topic in topics}
        red = {problem.topic_id for problem in look.problems}
        return {
            "now_ms": look.now_ms,
            "node_id": self._parts.node_id,
            "topics": [self._topic(topic, look, topic.id in red) for topic in topics],
            "groups": _groups(await metadata.overview.groups()),
            "brokers": await self._brokers(),
            "jobs": [_job(job, is_live=job in look.live) for job in look.jobs],
            "problems": [_problem(each, names) for each in _newest_first(look.problems)],
            "tables_trouble": self._tables.trouble,
        }

    async def topic(self, name: str) -> dict[str, Any]:
        """One topic with its partitions and its table; raises `UnknownTopic`."""
        topic = await self._parts.metadata.topics.get(name)
        ends = await self._parts.metadata.tables.ends(topic.id)
        return {
            "name": topic.name,
            "id": str(topic.id),
            "created_ms": topic.created_ms,
            "config": dict(sorted(topic.config.items())),
            "partitions": [
                {
                    "partition": number,
                    "log_start": each.log_start,
                    "table_end": each.table_end,
                    "high_watermark": each.high_watermark,
                }
                for number, each in ends.items()
            ],
            **await self._table_of(topic, sum(each.table_end for each in ends.values())),
        }

    async def _table_of(self, topic: Topic, table_end: int) -> dict[str, Any]:
        try:
            facts = await self._tables.now(topic, table_end)
        except LakestreamError as error:
            return {"table": None, "table_trouble": error.message}
        return {"table": None if facts is None else _table(facts), "table_trouble": None}

    async def _look(self) -> _Look:
        metadata, clock = self._parts.metadata, self._parts.clock
        partitions = await metadata.overview.partitions()
        now = clock.monotonic()
        moved = self._rates.moved(now, partitions)
        arrived = await metadata.overview.arrived(moved) if moved else {}
        jobs = await metadata.jobs.list()
        return _Look(
            now_ms=clock.wall_ms(),
            ends=_sums(partitions),
            rates=self._rates.take(now, partitions, arrived),
            backlog=await metadata.backlog.pending(),
            problems=await metadata.problems.list(),
            jobs=jobs,
            live=[job for job in jobs if self._is_live(job)],
        )

    def _topic(self, topic: Topic, look: _Look, is_red: bool) -> dict[str, Any]:
        ends = look.ends.get(topic.id, _NO_ENDS)
        rate, lag_ms = look.rates.get(topic.id), look.lag_ms(topic)
        facts = self._tables.known(topic.id)
        return {
            "name": topic.name,
            "partitions": topic.partitions,
            "log_start": ends.log_start,
            "table_end": ends.table_end,
            "high_watermark": ends.high_watermark,
            "records_per_s": None if rate is None else round(rate.records, 1),
            "bytes_per_s": None if rate is None else round(rate.bytes),
            "lag_records": ends.last_stable - ends.table_end,
            "lag_s": lag_ms / 1000,
            "wal_bytes": self._tables.wal_bytes.get(topic.id),
            "table": None if facts is None else _table_in_short(facts),
            "quarantined": self._tables.quarantined(topic.id) if ends.table_end else 0,
            "state": "red" if is_red else _state(topic, lag_ms),
        }

    async def _brokers(self) -> list[dict[str, Any]]:
        live = self._parts.live_nodes()
        return [
            {
                "node_id": row.registration.node.node_id,
                "address": f"{row.registration.node.host}:{row.registration.node.port}",
                "rack": row.registration.node.rack,
                "started_ms": row.registration.started_ms,
                "live": row.registration.node.node_id in live,
            }
            for row in await self._parts.metadata.brokers.list()
        ]

    def _is_live(self, job: Job) -> bool:
        silent_s = self._parts.metadata.jobs.still_s(job)
        every_s = float(job.about.get("every_s", 0.0))
        return silent_s < max(_SILENT_S, _SILENT_ROUNDS * every_s)


def _job(job: Job, *, is_live: bool) -> dict[str, Any]:
    return {
        "id": job.id,
        "kind": job.kind,
        "topics": job.about.get("topics", "*"),
        "started_ms": job.started_ms,
        "last_success_ms": job.last_success_ms,
        "live": is_live,
    }


def _sums(partitions: Sequence[PartitionNow]) -> dict[TopicId, PartitionEnds]:
    sums: dict[TopicId, PartitionEnds] = {}
    for each in partitions:
        before = sums.get(each.partition.topic_id, _NO_ENDS)
        total = PartitionEnds(*(a + b for a, b in zip(before, each.ends, strict=True)))
        sums[each.partition.topic_id] = total
    return sums


def _state(topic: Topic, lag_ms: int) -> str:
    return "late" if is_late(lag_ms, _target_ms(topic)) else "well"


def _target_ms(topic: Topic) -> int:
    return TopicConfig.of(topic.config).table_lag_ms


def _groups(rows: Sequence[GroupNow]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        own = found.setdefault(
            row.group_id,
            {"group": row.group_id, "has_members": row.has_members, "lag": 0, "topics": []},
        )
        if row.topic is not None:
            own["lag"] += row.lag
            each = {"topic": row.topic, "lag": row.lag, "committed_ms": row.committed_ms}
            own["topics"].append(each)
    return list(found.values())


def _newest_first(problems: Sequence[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda each: each.since_ms, reverse=True)


def _problem(problem: Problem, names: Mapping[TopicId, str]) -> dict[str, Any]:
    return {
        "topic": names.get(problem.topic_id, str(problem.topic_id)),
        "partition": problem.partition,
        "offset": problem.offset,
        "sentence": problem.sentence,
        "remedy": problem.remedy,
        "since_ms": problem.since_ms,
    }


def _table_in_short(facts: TableFacts) -> dict[str, Any]:
    newest = facts.snapshots.newest
    return {
        "files": facts.files,
        "bytes": facts.size,
        "median_bytes": facts.median_bytes,
        "snapshots": facts.snapshots.total,
        "last_snapshot_ms": newest[0].at_ms if newest else None,
    }


def _table(facts: TableFacts) -> dict[str, Any]:
    # A snapshot id has more digits than numbers of JavaScript.
    newest = [{**s._asdict(), "snapshot_id": str(s.snapshot_id)} for s in facts.snapshots.newest]
    return {**_table_in_short(facts), "table": facts.table, "newest_snapshots": newest}
