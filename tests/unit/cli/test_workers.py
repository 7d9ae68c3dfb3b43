"""Processes that a parent watches: which end is final, and that a signal to stop is never lost."""

import logging
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest

from lakestream_spark.cli.announce import Announce
from lakestream_spark.cli.workers import COMPACTION_CODES, Main, Role, Worker, watch
from tests.support.embedded import lake_settings
from tests.support.worker_mains import (
    ends_well_at_first,
    goes_on,
    is_damaged_at_first,
    serves_and_is_damaged,
    starts,
)

RESTARTED = "a process ended by itself and is started again"


def worker(folder: Path, main: Main, **codes: tuple[int, ...]) -> Worker:
    folder.mkdir(exist_ok=True)
    role = Role(name=main.__name__, main=main, **codes)
    return Worker(lake_settings(folder), Announce.JSON, role)


def watched(*workers: Worker) -> int:
    """Their code, by the way that a parent takes."""

    def stop() -> None:
        for each in workers:
            each.stop()

    return watch(list(workers), stop)


def test_a_process_that_ends_well_without_being_asked_is_started_again_and_logged(tmp_path, caplog):
    with caplog.at_level(logging.ERROR):
        assert watched(worker(tmp_path, ends_well_at_first)) == 2
    assert starts(tmp_path) == 2
    (told,) = [record for record in caplog.records if record.getMessage() == RESTARTED]
    assert told.facts == {"process": "ends_well_at_first", "code": 0, "pause_s": 0.5}


def test_a_broker_that_cannot_start_for_damage_ends_them_all_with_5(tmp_path):
    other = tmp_path / "other"
    assert watched(worker(tmp_path, is_damaged_at_first), worker(other, goes_on)) == 5
    assert starts(tmp_path) == 1


def test_a_broker_that_ended_for_damage_while_it_served_gets_one_more_start(tmp_path):
    assert watched(worker(tmp_path, serves_and_is_damaged)) == 5
    assert starts(tmp_path) == 2


def test_a_compaction_that_ended_for_damage_is_started_again(tmp_path):
    assert watched(worker(tmp_path, is_damaged_at_first, final=COMPACTION_CODES)) == 2
    assert starts(tmp_path) == 2


def test_who_is_told_to_stop_before_its_start_does_not_start(tmp_path):
    stopped = worker(tmp_path, goes_on)
    stopped.stop()
    assert watched(stopped) == 0
    assert starts(tmp_path) == 0


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_stop_in_the_middle_of_a_start_reaches_the_process(tmp_path, monkeypatch, moment):
    begin = SpawnProcess.start
    first, second = worker(tmp_path / "1", goes_on), worker(tmp_path / "2", goes_on)

    def interrupted(process: SpawnProcess) -> None:
        if moment == "after":
            begin(process)
        first.stop()
        second.stop()
        if moment == "before":
            begin(process)

    monkeypatch.setattr(SpawnProcess, "start", interrupted)
    assert watched(first, second) == 0
    assert first.code == -15
    assert second.code is None
