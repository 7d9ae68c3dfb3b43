"""The topics as the broker's status page has them, looked at every second.

What always holds: nobody waits for the page but `look`; while it does not answer, the topics are
those of the last answer.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from threading import Event, Thread
from typing import Any, Final, NamedTuple
from urllib.request import Request, urlopen

from lakestream_spark.core.errors import Unavailable

_EVERY_S: Final = 1.0
_WITHIN_S: Final = 10.0


class TopicNow(NamedTuple):
    """One topic; counts are sums over its partitions."""

    name: str
    records: int
    in_table: int
    per_second: float
    behind: int
    behind_s: float
    snapshots: int | None
    """Of the table, once somebody has looked at it."""


class Watch:
    """Runs in a thread from `start` to `stop`."""

    def __init__(self, page: str, topics: Sequence[str], token: str | None = None) -> None:
        self._topics = topics
        self._request = Request(f"{page}/api/status")
        if token is not None:
            word = base64.b64encode(f"demo:{token}".encode()).decode()
            self._request.add_header("Authorization", f"Basic {word}")
        self._stop = Event()
        self._thread = Thread(target=self._run, name="watch", daemon=True)
        self.now: Mapping[str, TopicNow] = {}
        """By name, in the order that was given; those that exist."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> Mapping[str, TopicNow]:
        """As it is now; raises `Unavailable`."""
        try:
            with urlopen(self._request, timeout=_WITHIN_S) as response:
                found = topics_of(json.load(response))
        except (OSError, ValueError, KeyError) as error:
            raise Unavailable("the status page does not answer", error=error) from None
        self.now = {name: found[name] for name in self._topics if name in found}
        return self.now

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_S):
            try:
                self.look()
            except Unavailable:
                continue


def topics_of(status: Mapping[str, Any]) -> dict[str, TopicNow]:
    """What the page's answer says of each topic."""
    return {
        each["name"]: TopicNow(
            name=each["name"],
            records=each["high_watermark"],
            in_table=each["table_end"],
            per_second=each["records_per_s"] or 0.0,
            behind=each["lag_records"],
            behind_s=each["lag_s"],
            snapshots=_snapshots(each),
        )
        for each in status["topics"]
    }


def _snapshots(topic: Mapping[str, Any]) -> int | None:
    if topic["table"] is not None:
        return int(topic["table"]["snapshots"])
    return None if topic["table_end"] else 0
