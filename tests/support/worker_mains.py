"""What a process of `lakestream up` may do, in place of a broker or a compaction."""

import time
from multiprocessing.connection import Connection
from pathlib import Path

from lakestream_spark.cli.announce import Announce, Ports
from lakestream_spark.settings import Settings


def starts(folder: Path) -> int:
    """How many processes have begun in this folder."""
    return len(list(folder.glob("start-*")))


def _begin(settings: Settings) -> int:
    folder = Path(settings.data)
    number = starts(folder)
    (folder / f"start-{number}").touch()
    return number


def goes_on(settings: Settings, announce: Announce, told: Connection) -> None:
    """Until a signal ends it."""
    _begin(settings)
    time.sleep(600)


def ends_well_at_first(settings: Settings, announce: Announce, told: Connection) -> None:
    """With code 0; refused when it is started again, so that its parent ends."""
    raise SystemExit(2 if _begin(settings) else 0)


def is_damaged_at_first(settings: Settings, announce: Announce, told: Connection) -> None:
    """With code 5; refused when it is started again, so that its parent ends."""
    raise SystemExit(2 if _begin(settings) else 5)


def serves_and_is_damaged(settings: Settings, announce: Announce, told: Connection) -> None:
    """It listened before it ended with code 5; when it is started again it does not listen."""
    if not _begin(settings):
        told.send(Ports(1, 2))
    raise SystemExit(5)
