"""What strikes brokers and clients, by a seed: a deck of blows, shuffled again when it is dealt.

A quarter of the deck is rest. Blows overlap: what was struck is healed at its own time, while other
blows fall. A broker may be struck again while it starts; but between two blows some broker serves
for a while, however slowly brokers start, because nothing can go wrong where nothing goes on.
"""

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import Final, NamedTuple, Protocol

from tests.support.chaos_brokers import SESSION_S, Brokers
from tests.support.chaos_clients import Seat

_TICK_S: Final = 0.05
SHORT_DECK: Final = (
    *("rest", "rest"),
    *("kill some brokers", "kill all brokers", "pause a broker", "stop a broker"),
    *("kill a client", "change a member"),
)
LONG_DECK: Final = (*SHORT_DECK, "rest", "kill some brokers", "kill a broker", "kill a producer")


class Pace(NamedTuple):
    """How long it waits between blows, and how long what it struck is gone, in seconds."""

    between: tuple[float, float]
    gone: tuple[float, float]
    deck: tuple[str, ...]
    pause_sessions: tuple[float, ...] = (1, 8)


class Struck(Protocol):
    """The clients that are struck."""

    members: list[Seat]
    producers: list[Seat]


class Nemesis:
    """Strikes while `run` is called; `heal` mends everything."""

    def __init__(self, brokers: Brokers, clients: Struck, random: Random, pace: Pace) -> None:
        self._brokers = brokers
        self._clients = clients
        self._random = random
        self._pace = pace
        self._cards = self._deal()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._leaving: set[str] = set()
        self._healing = False
        self.dealt = 0
        self.counts: Counter[str] = Counter()

    def run(self, goes_on: Callable[[], bool]) -> None:
        left_s = self._random.uniform(*self._pace.between)
        while goes_on() or self.dealt < len(self._pace.deck):
            self._mend(time.monotonic())
            self._brokers.look_after()
            if left_s <= 0:
                self._strike(next(self._cards))
                left_s = self._random.uniform(*self._pace.between)
            time.sleep(_TICK_S)
            left_s -= _TICK_S if self._something_goes_on() else 0.0

    def heal(self) -> None:
        self._healing = True
        self._brokers.heal()
        self._mend(float("inf"))

    def _something_goes_on(self) -> bool:
        return self._brokers.serve()

    def _deal(self) -> Iterator[str]:
        while True:
            for card in self._random.sample(self._pace.deck, len(self._pace.deck)):
                self.dealt += 1
                yield card

    def _mend(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            heapq.heappop(self._due)[2]()

    def _later(self, mend: Callable[[], None], *, at_least_s: float = 0.0) -> None:
        when = time.monotonic() + at_least_s + self._random.uniform(*self._pace.gone)
        heapq.heappush(self._due, (when, next(self._order), mend))

    def _strike(self, blow: str) -> None:
        self.counts[blow] += 1
        if blow in ("kill a client", "kill a producer", "change a member"):
            self._strike_client(blow)
            return
        awake = self._brokers.awake()
        if blow == "rest" or not awake:
            return
        how_many = {
            "kill all brokers": len(awake),
            "kill some brokers": self._random.randint(1, len(awake)),
        }
        for node in self._random.sample(awake, how_many.get(blow, 1)):
            self._strike_broker(blow, node)

    def _strike_broker(self, blow: str, node: int) -> None:
        if blow == "pause a broker":
            self._brokers.fall_asleep(node)
        elif blow == "stop a broker":
            self._brokers.stop(node)
        else:
            self._brokers.kill(node)
        # After one session the others do its work; after three of theirs it has to start again.
        sessions = self._random.choice(self._pace.pause_sessions) if blow == "pause a broker" else 0
        self._later(lambda: self._brokers.bring_back(node), at_least_s=sessions * SESSION_S)

    def _strike_client(self, blow: str) -> None:
        members, producers = self._clients.members, self._clients.producers
        choice = {
            "kill a client": [*members, *producers],
            "kill a producer": producers,
            "change a member": members,
        }
        seated = [s for s in choice[blow] if s.client is not None and s.name not in self._leaving]
        if not seated:
            return
        seat = self._random.choice(seated)
        if blow == "change a member":
            seat.tell_to_stop()
            self._leaving.add(seat.name)
            self._later(lambda: self._replace(seat))
        else:
            seat.kill()
            self._later(seat.start)

    def _replace(self, seat: Seat) -> None:
        """A member leaves in its own time, which an outage of all brokers makes longer."""
        if seat.taken.alive and not self._healing:
            self._later(lambda: self._replace(seat))
            return
        seat.ended()
        self._leaving.discard(seat.name)
        seat.start()
