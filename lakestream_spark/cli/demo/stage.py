"""What the chapters play on: the running platform, the traffic, and the reasons to stop."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Final

from lakestream_spark.cli.demo.platform import Listening, Platform
from lakestream_spark.cli.demo.ready import check_room
from lakestream_spark.cli.demo.screen import Screen
from lakestream_spark.cli.demo.traffic import Traffic
from lakestream_spark.cli.demo.watch import TopicNow, Watch
from lakestream_spark.core.errors import Unavailable
from lakestream_spark.settings import Settings

_LOOK_S: Final = 0.1
_LONGEST: Final = 300


class Stopped(Exception):
    """Somebody asked the demo to stop, or its time is over."""


@dataclass(slots=True, kw_only=True)
class Clockwork:
    """When the demo began, and when it ends."""

    began: float = field(default_factory=time.monotonic)
    run_for_s: float | None = None
    stop: Event = field(default_factory=Event)

    @property
    def at_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began

    def check(self) -> None:
        """Raises `Stopped`."""
        if self.stop.is_set() or (self.run_for_s is not None and self.at_s >= self.run_for_s):
            raise Stopped


@dataclass(slots=True, kw_only=True)
class Stage:
    """Everything that a chapter needs."""

    settings: Settings
    clockwork: Clockwork
    screen: Screen
    platform: Platform
    listening: Listening
    watch: Watch
    traffic: Traffic
    before: Mapping[str, TopicNow]
    """The topics as they were found."""
    _troubles: set[str] = field(default_factory=set)

    def check(self) -> None:
        """Raises when there is no use in going on, or nobody wants it; shows what went wrong."""
        check_room(self.settings)
        self.platform.check()
        for trouble in self.platform.troubles():
            self._show(trouble)
        self.traffic.check()
        self.screen.beat(self.clockwork.at_s)
        self.clockwork.check()

    def wait_for(self, condition: Callable[[], bool], what: str, within_s: float) -> None:
        """Until the condition holds; raises `Unavailable` when it does not come true in time."""
        check = self.deadline(what, within_s)
        while not condition():
            check()
            self.clockwork.stop.wait(_LOOK_S)

    def deadline(self, what: str, within_s: float) -> Callable[[], None]:
        """A `check` that raises `Unavailable` as well once so much time is over."""
        ends_at = time.monotonic() + within_s

        def check() -> None:
            self.check()
            if time.monotonic() > ends_at:
                raise Unavailable(f"{what} within {within_s:.0f} s: see {self.platform.log}")

        return check

    def _show(self, trouble: str) -> None:
        """Each kind once: the log has them all."""
        kind = trouble.partition("=")[0]
        if kind not in self._troubles:
            self._troubles.add(kind)
            self.screen.trouble(trouble[:_LONGEST])
