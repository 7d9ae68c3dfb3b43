"""Whatever dies while records are on their way into tables, every offset is there once.

Producers send all the time, and a consumer replays everything from offset 0, again and again.
Brokers and compactions are killed, put to sleep and robbed of their checkpoints by a seed; with a
real Spark its workers are killed too, and upkeep rewrites the tables meanwhile. At the end the rows
of the tables are the sum of the end offsets, dense, each once, in every snapshot that is kept, in
Iceberg and in Delta; the WAL is empty, no replay saw anything else, and every topic is certified.
"""

import asyncio
import os
from pathlib import Path
from random import Random, SystemRandom
from typing import Final

import pytest

from tests.support.chaos_nemesis import Pace
from tests.support.chaos_run import Size
from tests.support.lake_place import Place, on_s3
from tests.support.postgres import postgres_server, postgres_url
from tests.support.s3 import S3Server, s3_server
from tests.support.sparkless import SESSION_S
from tests.support.table_chaos_jobs import Jobs, JobSeat, Kind
from tests.support.table_chaos_nemesis import JOB_DECK, SPARK_DECK
from tests.support.table_chaos_run import Cast, TableReport, run_table_chaos

__all__ = ["postgres_server", "postgres_url", "s3_server"]

SEED: Final = "TABLE_CHAOS_SEED"
SECONDS: Final = "TABLE_CHAOS_SECONDS"

LONG_S: Final = float(os.environ.get(SECONDS) or 300)

LONGER: Final = Size(
    seconds=LONG_S,
    records=int(150 * LONG_S),
    rate=400,
    members=0,
    pace=Pace(between=(0.5, 3.0), gone=(0.0, 3.0), deck=JOB_DECK, pause_sessions=(1,)),
    session_ms=3_000,
)
SHORT: Final = Size(
    seconds=10,
    records=5_000,
    rate=600,
    members=0,
    pace=Pace(between=(0.3, 1.2), gone=(0.0, 1.0), deck=JOB_DECK, pause_sessions=(1,)),
    session_ms=3_000,
)
FULL: Final = Size(
    seconds=LONG_S,
    records=50_000,
    rate=400,
    members=0,
    pace=Pace(between=(2.0, 8.0), gone=(0.0, 6.0), deck=SPARK_DECK),
    session_ms=6_000,
    padding=1_500,
)
SPARK_SESSION_S: Final = 3.0
EAGER: Final = (
    "maintain.merge_min_files=2",
    "maintain.snapshots_kept=3",
    "maintain.hourly_tags=0",
    "maintain.daily_tags=0",
)
"""Upkeep that merges and expires at every look."""
SMALL: Final = (
    "compact.batch_bytes=16777216",
    "compact.task_bytes=1048576",
    f"compact.session_timeout_ms={SPARK_SESSION_S * 1000:.0f}",
)


@pytest.fixture
def random() -> Random:
    """Seeded; the seed is shown with a failure and can be given by TABLE_CHAOS_SEED."""
    seed = int(os.environ.get(SEED) or SystemRandom().randrange(1 << 32))
    print(f"{SEED}={seed}")
    return Random(seed)


def seats(folder: Path, kind: Kind, random: Random) -> list[JobSeat]:
    return [
        JobSeat(name=f"job-{n}", kind=kind, folder=folder, random=Random(random.random()))
        for n in (1, 2)
    ]


def assert_sound(report: TableReport, size: Size, *blows: str) -> None:
    print(report)
    assert not report.anomalies, "\n".join([str(report), *report.anomalies[:50]])
    assert report.counts["table rows"] == report.counts["records"] >= size.records
    # Blows that hit nothing prove nothing.
    for what in ("kills", "jobs killed", "hot commits", "replays", *blows):
        assert report.counts[what] > 0, str(report)


def without_spark(folder: Path, place: Place, random: Random) -> Cast:
    """Two jobs that do what Spark may do, and start in a moment."""
    words = ["tests.support.sparkless", place.data]
    words += ["--conf", str(place.conf)] if place.conf else []
    kind = Kind(name="job", words=words, seeded="--for-ever")
    return Cast(
        place=place,
        nodes=(1, 2),
        jobs=Jobs(seats(folder, kind, random)),
        drain=words,
        session_s=SESSION_S,
    )


@pytest.mark.long
@pytest.mark.timeout(1500, func_only=True)
def test_every_offset_is_in_the_table_once_after_a_short_chaos(tmp_path: Path, random: Random):
    cast = without_spark(tmp_path, Place(data=str(tmp_path / "data")), random)
    report = run_table_chaos(tmp_path, SHORT, random, cast)
    assert_sound(report, SHORT, "jobs paused")


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.postgres
@pytest.mark.timeout(3600, func_only=True)
async def test_every_offset_is_in_the_table_once_after_five_minutes_of_chaos_on_s3_and_postgresql(
    tmp_path: Path, random: Random, s3_server: S3Server, postgres_url: str
):
    cast = without_spark(tmp_path, on_s3(tmp_path, s3_server, postgres_url), random)
    report = await asyncio.to_thread(run_table_chaos, tmp_path, LONGER, random, cast)
    assert_sound(report, LONGER, "jobs paused")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(3600, func_only=True)
def test_every_offset_is_in_the_table_once_after_five_minutes_of_chaos_with_spark(
    tmp_path: Path, random: Random
):
    settings = [word for setting in (*SMALL, *EAGER) for word in ("--set", setting)]
    where = ["--data", str(tmp_path / "data"), *settings]
    compact = ["lakestream_spark", "compact", *where]
    maintain = Kind(
        name="maintainer", words=["lakestream_spark", "maintain", *where, "--every", "5"]
    )
    kind = Kind(name="job", words=compact, checkpoint="compact.checkpoint")
    cast = Cast(
        place=Place(data=str(tmp_path / "data")),
        nodes=(1, 2, 3),
        jobs=Jobs(
            seats(tmp_path, kind, random),
            JobSeat(name="maintainer", kind=maintain, folder=tmp_path, random=random),
        ),
        drain=[*compact, "--trigger", "available-now"],
        session_s=SPARK_SESSION_S,
    )
    report = run_table_chaos(tmp_path, FULL, random, cast)
    assert_sound(
        report,
        FULL,
        *("jobs paused", "workers killed", "checkpoints deleted", "maintainer starts"),
        *("files merged", "expired snapshots"),
    )
