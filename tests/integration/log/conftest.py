"""The servers of `tests/support`, a seed that is printed, and the stores a log can stand on."""

import json
import os
from pathlib import Path
from random import Random, SystemRandom
from typing import NamedTuple

import pytest

from tests.support.postgres import postgres_server, postgres_url
from tests.support.s3 import NEEDS_S3, S3Server, s3_server
from tests.support.small_disk import small_disk

__all__ = ["postgres_server", "postgres_url", "s3_server", "small_disk"]

SEED = "LOGTEST_SEED"


class Backend(NamedTuple):
    """Where a log's objects and its metadata are."""

    store_url: str
    store_options: str
    metadata_url: str


@pytest.fixture
def random() -> Random:
    """Seeded; the seed is shown with a failure and can be given by LOGTEST_SEED."""
    seed = int(os.environ.get(SEED) or SystemRandom().randrange(1 << 32))
    print(f"{SEED}={seed}")
    return Random(seed)


LOCAL_SQLITE = "local-sqlite"
S3_POSTGRES = "s3-postgres"


@pytest.fixture(
    params=[
        LOCAL_SQLITE,
        pytest.param(S3_POSTGRES, marks=[*NEEDS_S3, pytest.mark.postgres]),
    ]
)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    if request.param == LOCAL_SQLITE:
        return Backend(f"file://{tmp_path}/wal", "{}", f"sqlite:///{tmp_path}/metadata.db")
    server: S3Server = request.getfixturevalue("s3_server")
    return Backend(
        server.new_url(), options_json(server), str(request.getfixturevalue("postgres_url"))
    )


def options_json(server: S3Server) -> str:
    """The store options as another process can be given them."""
    options = server.options()
    given = options.model_dump(exclude_defaults=True)
    assert options.secret_access_key is not None
    return json.dumps({**given, "secret_access_key": options.secret_access_key.get_secret_value()})
