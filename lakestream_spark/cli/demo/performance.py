"""One performance: the platform starts, the chapters are played, it serves, and everything stops.

What always holds: whatever happens, the traffic stops before the platform does; the first thing
that went wrong is what the performance ends with.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lakestream_spark.cli.demo.interrupts import heeding_interrupts
from lakestream_spark.cli.demo.platform import Platform
from lakestream_spark.cli.demo.ready import check_room
from lakestream_spark.cli.demo.screen import Screen
from lakestream_spark.cli.demo.shop import FIRST_ORDER, ORDERS, PAYMENTS, Shop
from lakestream_spark.cli.demo.stage import Clockwork, Stage, Stopped
from lakestream_spark.cli.demo.story import Chapter, Story
from lakestream_spark.cli.demo.traffic import Traffic
from lakestream_spark.cli.demo.watch import Watch
from lakestream_spark.core.errors import LakestreamError, Unavailable
from lakestream_spark.settings import Settings

TOPICS: Final = (ORDERS, PAYMENTS)
PARTITIONS: Final = 3
LAG_MS: Final = 2000
_ASK_S: Final = 60.0
_SERVE_S: Final = 0.2
_INTERRUPTED: Final = 130


class Performance:
    """Runs once; what it shows goes to the screen."""

    def __init__(self, settings: Settings, clockwork: Clockwork, screen: Screen) -> None:
        self._settings = settings
        self._clockwork = clockwork
        self._screen = screen
        self._story = Story()

    def run(self, up: Sequence[str], log: Path, again: str) -> int:
        """The exit code; raises what went wrong. `up` are the words that start the platform."""
        platform = Platform(up, log)
        stage: Stage | None = None
        problem: LakestreamError | None = None
        try:
            with (
                heeding_interrupts(self._clockwork.stop, platform.end_now),
                self._screen.showing(),
            ):
                try:
                    stage = self._set_stage(platform)
                    self._play(stage)
                    self._serve(stage)
                except Stopped:
                    pass
                except LakestreamError as error:
                    problem = self._cause(error)
                self._screen.doing("stopping", "Ctrl-C once more stops at once")
                failed = self._stop(platform, stage, gives_up=problem is not None)
                problem = problem or failed
        finally:
            platform.kill()
        if stage is not None:
            self._screen.close(self._last_words(stage, again))
        return self._verdict(platform, problem)

    def _set_stage(self, platform: Platform) -> Stage:
        """Everything but the traffic runs, and the topics are there."""
        self._screen.doing("the broker starts")
        listening = platform.ready(self._clockwork.check)
        _make_topics(listening.kafka)
        token = self._settings.broker.admin_token
        word = None if token is None else token.get_secret_value()
        watch = Watch(listening.admin, TOPICS, word)
        before = watch.look()
        watch.start()
        self._screen.topics = lambda: watch.now
        shop = Shop(Random(), first_order=FIRST_ORDER + before[ORDERS].records)
        return Stage(
            settings=self._settings,
            clockwork=self._clockwork,
            screen=self._screen,
            platform=platform,
            listening=listening,
            watch=watch,
            traffic=Traffic(listening.kafka, shop),
            before=before,
        )

    def _play(self, stage: Stage) -> None:
        # Here and not above: they need seconds to load, and the platform starts meanwhile.
        from lakestream_spark.cli.demo.advice import advise
        from lakestream_spark.cli.demo.chapters import DOING, SCRIPT

        for name in self._story.missing:
            self._screen.doing(DOING[name])
            told = SCRIPT[name](stage)
            at_s = self._clockwork.at_s
            chapter = Chapter(name=name, text=told.text, at_s=at_s, details=told.details)
            self._story.tell(chapter)
            self._screen.tell(chapter)
        advise(stage)

    def _serve(self, stage: Stage) -> None:
        self._screen.doing("serving", f"Ctrl-C stops; the platform's log is {stage.platform.log}")
        while True:
            stage.check()
            self._clockwork.stop.wait(_SERVE_S)

    def _stop(
        self, platform: Platform, stage: Stage | None, *, gives_up: bool
    ) -> LakestreamError | None:
        """In good order; what went wrong with that. Who gives up does not wait for answers."""
        problem: LakestreamError | None = None
        try:
            if stage is not None:
                stage.traffic.stop(lambda: gives_up or platform.was_killed)
                stage.watch.look()
        except LakestreamError as error:
            problem = self._cause(error)
        try:
            if stage is not None:
                stage.watch.stop()
            platform.stop()
        except LakestreamError as error:
            problem = problem or self._cause(error)
        return problem

    def _cause(self, error: LakestreamError) -> LakestreamError:
        """A full disk has many faces."""
        try:
            check_room(self._settings)
        except Unavailable as full:
            return full
        return error

    def _last_words(self, stage: Stage, again: str) -> str:
        sent = sum(stage.traffic.acknowledged.values())
        return (
            f"{sent:,} records were sent and acknowledged, and are in {self._settings.data}; "
            f"`{again}` goes on from there"
        )

    def _verdict(self, platform: Platform, problem: LakestreamError | None) -> int:
        if platform.was_killed:
            return _INTERRUPTED
        if problem is not None:
            raise problem
        if self._story.held:
            return 0
        if self._clockwork.stop.is_set():
            return _INTERRUPTED
        missing = ", ".join(self._story.missing)
        took = f"{self._clockwork.run_for_s:.0f} s"
        raise LakestreamError(f"the story did not come to its end within {took}: {missing} missing")


def _make_topics(bootstrap: str) -> None:
    """With a short lag; those that are there stay as they are."""
    config = {"lakestream.table.lag.ms": str(LAG_MS)}
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [NewTopic(name, PARTITIONS, 1, config=config) for name in TOPICS]
    for name, made in admin.create_topics(wanted).items():
        try:
            made.result(_ASK_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise Unavailable(f"{name} cannot be made: {error.args[0].str()}") from None
