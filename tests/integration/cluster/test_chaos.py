"""No loss, no duplicates, no reordering while brokers are killed, paused and stopped at random.

Idempotent producers and two groups of consumers (one eager; one cooperative with static members)
run over three broker processes that a nemesis strikes by a seed, members of the groups too. After a
final heal a fresh consumer reads everything, and the checkers count every anomaly: zero.
"""

import os
from pathlib import Path
from random import Random, SystemRandom
from typing import Final

import pytest

from tests.support.chaos_nemesis import LONG_DECK, SHORT_DECK, Pace
from tests.support.chaos_run import Report, Size, run_chaos
from tests.support.postgres import postgres_server, postgres_url
from tests.support.s3 import S3Server, s3_server

__all__ = ["postgres_server", "postgres_url", "s3_server"]

SEED: Final = "CHAOS_SEED"

SHORT: Final = Size(
    seconds=10,
    records=40_000,
    rate=3_000,
    members=2,
    pace=Pace(between=(0.5, 2.0), gone=(0.0, 1.5), deck=SHORT_DECK, pause_sessions=(1,)),
    session_ms=3_000,
)
FULL: Final = Size(
    seconds=300,
    records=1_000_000,
    rate=5_000,
    members=3,
    pace=Pace(between=(1.0, 5.0), gone=(0.0, 5.0), deck=LONG_DECK),
    session_ms=6_000,
)


@pytest.fixture
def random() -> Random:
    """Seeded; the seed is shown with a failure and can be given by CHAOS_SEED."""
    seed = int(os.environ.get(SEED) or SystemRandom().randrange(1 << 32))
    print(f"{SEED}={seed}")
    return Random(seed)


def _assert_sound(report: Report, size: Size) -> None:
    print(report)
    assert not report.anomalies, "\n".join([str(report), *report.anomalies[:50]])
    # Blows that hit nothing prove nothing.
    assert report.counts["records"] >= size.records
    for what in ("kills", "pauses", "graceful stops", "assignments"):
        assert report.counts[what] > 0, str(report)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_short_chaos_has_no_anomaly(tmp_path: Path, random: Random):
    _assert_sound(run_chaos(tmp_path, SHORT, random, []), SHORT)


@pytest.mark.slow
@pytest.mark.timeout(3000, func_only=True)
def test_five_minutes_and_a_million_records_have_no_anomaly_on_a_folder(
    tmp_path: Path, random: Random
):
    _assert_sound(run_chaos(tmp_path, FULL, random, []), FULL)


@pytest.mark.slow
@pytest.mark.s3
@pytest.mark.postgres
@pytest.mark.timeout(3000, func_only=True)
def test_five_minutes_and_a_million_records_have_no_anomaly_on_s3_and_postgresql(
    tmp_path: Path, random: Random, s3_server: S3Server, postgres_url: str
):
    options = s3_server.options()
    assert options.secret_access_key is not None
    settings = [
        f"store.url={s3_server.new_url()}",
        f"store.endpoint={options.endpoint}",
        f"store.region={options.region}",
        "store.allow_http=true",
        f"store.access_key_id={options.access_key_id}",
        f"store.secret_access_key={options.secret_access_key.get_secret_value()}",
        f"metadata.url={postgres_url}",
        f"catalog.uri=sqlite:///{tmp_path}/catalog.db",
    ]
    _assert_sound(run_chaos(tmp_path, FULL, random, settings), FULL)
