"""Whether the brokers behind a consumer that prints nothing still answer.

librdkafka tries again for ever and tells nobody. What always holds: silence at the end of a
partition is lawful while any broker answers, however long; only time spent waiting counts, so
whoever is slow to print is not blamed on the brokers.
"""

import json
from collections.abc import Iterable
from typing import Final

from lakestream_spark.core.errors import Unavailable

SILENT_S: Final = 30.0


class Silence:
    """How long nothing was heard: of each partition that is not at its end, and of all brokers."""

    def __init__(self, limit_s: float = SILENT_S) -> None:
        self._limit_s = limit_s
        self._waited_s = 0.0
        self._heard_s: dict[int, float] = {}
        """When each partition that is not at its end was last heard of, in seconds of waiting."""
        self._answers = 0
        self._answered_s = 0.0

    def expect(self, partitions: Iterable[int]) -> None:
        """They were heard of, and have to say more, if only that they are at their end."""
        for partition in partitions:
            self._heard_s[partition] = self._waited_s

    def at_end(self, partition: int) -> None:
        """It may be silent until it gives a record."""
        self._heard_s.pop(partition, None)

    def statistics(self, told: str) -> None:
        """Takes what librdkafka tells of itself: a consumer at the end asks, and is answered."""
        answers: int = json.loads(told)["rx"]
        if answers != self._answers:
            self._answers, self._answered_s = answers, self._waited_s

    def waited(self, seconds: float) -> None:
        """Raises `Unavailable` when that was too long; looks once in a second of waiting."""
        before = int(self._waited_s)
        self._waited_s += seconds
        if int(self._waited_s) != before:
            self._check(self._waited_s - self._limit_s)

    def _check(self, since_s: float) -> None:
        if self._answered_s < since_s:
            raise Unavailable(
                f"no broker has answered for {self._limit_s:g} s: "
                "see whether one runs, or name another: --broker"
            )
        for partition, heard_s in self._heard_s.items():
            if heard_s < since_s:
                raise Unavailable(
                    f"partition {partition} is not at its end, and the brokers have given nothing "
                    f"of it for {self._limit_s:g} s: `lakestream status` and their logs say why"
                )
