"""What strikes brokers, producers and the jobs that move records into tables, by a seed.

Between two blows some job has committed something in its present life, however slowly jobs start: a
job that never comes to work can do no harm. Now and then one is struck before it has.
"""

from random import Random
from typing import Final

from tests.support.chaos_brokers import Brokers
from tests.support.chaos_nemesis import Nemesis, Pace, Struck
from tests.support.table_chaos_jobs import Jobs, JobSeat

JOB_DECK: Final = (
    *("rest", "kill a job", "pause a job", "kill all jobs"),
    *("kill a broker", "kill some brokers", "kill a producer"),
)
SPARK_DECK: Final = (
    *(*JOB_DECK, "kill a job", "rob a job", "kill workers", "kill workers", "kill workers"),
    *("pause a broker", "maintain", "maintain"),
)
_EARLY: Final = 0.2
_MAY_BE_EARLY: Final = ("kill a job", "pause a job")


class TableNemesis(Nemesis):
    """Strikes jobs as well; a `session_s` after it falls asleep a job has lost its tables."""

    def __init__(
        self,
        brokers: Brokers,
        clients: Struck,
        jobs: Jobs,
        random: Random,
        pace: Pace,
        session_s: float,
    ) -> None:
        super().__init__(brokers, clients, random, pace)
        self._jobs = jobs
        self._session_s = session_s

    def heal(self) -> None:
        super().heal()
        self._jobs.heal()

    def _something_goes_on(self) -> bool:
        works = any(seat.is_awake and seat.has_committed for seat in self._jobs.seats)
        return works and super()._something_goes_on()

    def _strike(self, blow: str) -> None:
        if blow == "maintain":
            self._maintain()
        elif "job" in blow or "workers" in blow:
            self._strike_job(blow)
        else:
            super()._strike(blow)

    def _strike_job(self, blow: str) -> None:
        awake = [seat for seat in self._jobs.seats if seat.is_awake]
        if blow == "kill all jobs":
            for seat in awake:
                self._kill(seat)
            return
        early = blow in _MAY_BE_EARLY and self._random.random() < _EARLY
        seat = self._random.choice([seat for seat in awake if early or seat.has_committed])
        if blow == "kill workers":
            self.counts["workers killed"] += seat.kill_workers()
        elif blow == "pause a job":
            self.counts["jobs paused"] += 1
            seat.fall_asleep()
            sessions = self._random.choice((0.3, 1.3, 2.5))
            self._later(seat.wake, at_least_s=sessions * self._session_s)
        else:
            self._kill(seat, rob=blow == "rob a job")

    def _kill(self, seat: JobSeat, *, rob: bool = False) -> None:
        seat.kill()
        self.counts["jobs killed"] += 1
        if rob and seat.lose_checkpoint():
            self.counts["checkpoints deleted"] += 1
        self._later(lambda: self._jobs.start(seat))

    def _maintain(self) -> None:
        """Upkeep comes, and when the card is dealt again it is killed in the middle of its work."""
        seat = self._jobs.maintainer
        assert seat is not None
        if seat.process is None:
            self._jobs.start(seat)
        else:
            seat.kill()
            self.counts["maintainers killed"] += 1
