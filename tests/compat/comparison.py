"""One script, two clusters, the same answer: what the tests of the bare protocol are made of."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.compat.clusters import Cluster, Difference, unique
from tests.compat.peer import CLOSED, Peer

WITHIN_S: Final = 180
"""A script is done in a second or two; this is for a machine that does much else."""

Script = Callable[[Peer], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class _Comparison:
    script: Script
    difference: Difference | None


class Comparisons:
    """The scripts of one file, by name."""

    def __init__(self) -> None:
        self._known: dict[str, _Comparison] = {}

    def add(self, difference: Difference | None = None) -> Callable[[Script], Script]:
        """Registers a script whose answers are equal, unless a difference is known."""

        def register(script: Script) -> Script:
            self._known[script.__name__] = _Comparison(script, difference)
            return script

        return register

    @property
    def names(self) -> list[str]:
        return list(self._known)

    async def run(self, name: str, lakestream: Cluster, kafka: Cluster) -> None:
        known, topic = self._known[name], unique("raw")
        ours, theirs = await asyncio.gather(
            *(outcome(known.script, each, topic) for each in (lakestream, kafka))
        )
        if known.difference is None:
            assert ours == theirs
        else:
            assert theirs == known.difference.kafka
            assert ours == known.difference.lakestream


async def outcome(script: Script, cluster: Cluster, topic: str) -> Any:
    async with asyncio.timeout(WITHIN_S), Peer(cluster, topic) as peer:
        try:
            return await script(peer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return CLOSED
