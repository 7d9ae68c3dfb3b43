"""Clocks of other machines, beside this one's, as `lakestream doctor` compares them.

What always holds: a time that a store or a database told is compared with this machine's of the
same moment, so that how long a check takes is no difference.
"""

from math import ceil
from typing import Final

from lakestream_spark.cli.ailments import SET_CLOCK, Sick
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.database import Fetch, Transaction

_MOST_MS: Final = 60_000
_HERE: Final = ("file://", "memory://")


class Clocks:
    """What was seen of them."""

    def __init__(self) -> None:
        self._apart_ms: dict[str, int] = {}

    def seen(self, whose: str, theirs_ms: int, ours_ms: int) -> None:
        self._apart_ms[whose] = abs(theirs_ms - ours_ms)

    def compared(self) -> str:
        """Raises `Sick` when one is far away."""
        for whose, apart_ms in self._apart_ms.items():
            if apart_ms > _MOST_MS:
                raise Sick(
                    f"the clock of {whose} and this one's differ by {apart_ms / 1000:,.0f} s",
                    SET_CLOCK,
                )
        others = {w: ms for w, ms in self._apart_ms.items() if not w.startswith(_HERE)}
        if others:
            # A store tells whole seconds.
            near = [f"{max(1, ceil(ms / 1000))} s of that of {w}" for w, ms in others.items()]
            return f"within {' and '.join(near)}"
        return "no other machine told its time; on one machine there is one clock"


async def postgres_ms(metadata: Metadata) -> int | None:
    """What time it is in PostgreSQL; None for a database that is a file of this machine."""
    if metadata.database.dialect_name == "sqlite":
        return None
    return await metadata.database.read(_now_ms())


def _now_ms() -> Transaction[int]:
    rows = yield Fetch("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)")
    return int(rows[0][0])
