"""Opening an SQLite file that others open at the same time."""

import sqlite3

import pytest

from lakestream_spark.metadata import sqlite


class Busy:
    """A connection that answers busy a few times, as SQLite does to all but one."""

    def __init__(self, times: int) -> None:
        self.left = times

    def execute(self, sql: str) -> None:
        if self.left:
            self.left -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error


def test_the_switch_to_the_log_waits_for_the_process_that_is_doing_it():
    connection = Busy(3)
    sqlite._switch_to_log(connection)  # type: ignore[arg-type]
    assert connection.left == 0


def test_the_switch_to_the_log_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.05)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        sqlite._switch_to_log(Busy(1_000_000))  # type: ignore[arg-type]
