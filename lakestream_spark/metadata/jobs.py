"""The registry of jobs that work on tables: that they live, and when they last succeeded.

What always holds: a job is known by one life of its process; whether it lives is judged by whoever
looks, from a beat that moves or stands still on the looker's own clock.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from lakestream_spark.core.clock import Clock
from lakestream_spark.metadata.database import Database, Execute, Fetch, Row, Transaction

COMPACTION: Final = "compact"
"""The kind of the jobs that bring tables on."""
_COLUMNS: Final = "job_id, kind, beat, started_ms, last_success_ms, about"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A row of the registry; `about` is for people."""

    id: str
    kind: str
    started_ms: int
    last_success_ms: int | None = None
    about: Mapping[str, Any]
    beat: int = 0


class _Seen(NamedTuple):
    beat: int
    since: float


class Jobs:
    """One process's view of the registry."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._seen: dict[str, _Seen] = {}

    async def beat(self, job: Job) -> None:
        """Enter the job or show that it lives, with its last success and what it says of itself."""
        await self._database.run(_beat(job))

    async def leave(self, job_id: str) -> None:
        await self._database.run(_leave([job_id]))

    async def live(self, kind: str, session_s: float) -> list[Job]:
        """The jobs of a kind whose beat moved within the session, as far as this process knows.

        One that is seen for the first time counts as alive.
        """
        jobs = [job for job in await self.list() if job.kind == kind]
        return [job for job in jobs if self.still_s(job) < session_s]

    async def forget_dead(self, kind: str, session_s: float) -> None:
        """Take out the rows whose beat stood still for that long."""
        jobs = [job for job in await self.list() if job.kind == kind]
        dead = [job.id for job in jobs if self.still_s(job) >= session_s]
        if dead:
            await self._database.run(_leave(dead))

    async def list(self) -> list[Job]:
        """All rows, those of dead jobs too, by id."""
        return await self._database.read(_list())

    def still_s(self, job: Job) -> float:
        """For how long its beat has not moved, as far as this process knows."""
        now = self._clock.monotonic()
        seen = self._seen.get(job.id)
        if seen is None or seen.beat != job.beat:
            self._seen[job.id] = _Seen(job.beat, now)
            return 0.0
        return now - seen.since


def _beat(job: Job) -> Transaction[None]:
    yield Execute(
        f"INSERT INTO jobs ({_COLUMNS}) VALUES ($1, $2, 0, $3, $4, $5) "
        "ON CONFLICT (job_id) DO UPDATE SET beat = jobs.beat + 1, "
        "last_success_ms = excluded.last_success_ms, about = excluded.about",
        (job.id, job.kind, job.started_ms, job.last_success_ms, json.dumps(dict(job.about))),
    )


def _leave(job_ids: Sequence[str]) -> Transaction[None]:
    yield Execute("DELETE FROM jobs WHERE job_id = ANY($1::text[])", (list(job_ids),))
    yield Execute("DELETE FROM plans WHERE job = ANY($1::text[])", (list(job_ids),))


def _list() -> Transaction[list[Job]]:
    rows = yield Fetch(f"SELECT {_COLUMNS} FROM jobs ORDER BY job_id")
    return [_job(row) for row in rows]


def _job(row: Row) -> Job:
    job_id, kind, beat, started_ms, last_success_ms, about = row
    return Job(
        id=job_id,
        kind=kind,
        beat=beat,
        started_ms=started_ms,
        last_success_ms=last_success_ms,
        about=json.loads(about),
    )
