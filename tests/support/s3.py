"""A real S3 server for the tests: versitygw, built once with Go into the user's cache.

Without Go the tests that need it are skipped and the summary says so; in CI that is a failure.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

import pytest
from pydantic import SecretStr

from lakestream_spark.objectstore.options import StoreOptions
from lakestream_spark.table.spec import CatalogSpec
from tests.support.fetching import cache_folder, one_at_a_time, run_patiently
from tests.support.ports import free_port

# Building the server the first time takes minutes and must not count as the test's own time.
NEEDS_S3 = (pytest.mark.s3, pytest.mark.timeout(func_only=True))

VERSION = "v1.8.0"
BUCKET = "lakestream"
_MODULE = "github.com/versity/versitygw/cmd/versitygw"
_START_TIMEOUT_S = 120
_KEY_ID, _SECRET = "lakestream-test", "not-a-secret"


class S3Server:
    """A versitygw over a folder; `kill` and `start` are its power switch, data stays."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self._binary = binary
        self._data = folder / "data"
        self._sidecar = folder / "sidecar"
        self._process: subprocess.Popen[bytes] | None = None
        self.host, self.port = "127.0.0.1", free_port()
        (self._data / BUCKET).mkdir(parents=True)

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        command = [str(self._binary), "--quiet", "--port", f"{self.host}:{self.port}", "posix"]
        if not _has_extended_attributes(self._data):
            self._sidecar.mkdir(exist_ok=True)
            command += ["--sidecar", str(self._sidecar)]
        keys = {"ROOT_ACCESS_KEY": _KEY_ID, "ROOT_SECRET_KEY": _SECRET}
        self._process = subprocess.Popen(
            [*command, str(self._data)],
            env={**os.environ, **keys},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            answers = _answers(self.host, self.port)
            if self._process.poll() is None and answers:
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError("versitygw did not start")
            time.sleep(0.05)

    def kill(self) -> None:
        """Stop the server at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def new_url(self) -> str:
        """The URL of a place in the bucket that nobody has used."""
        return f"s3://{BUCKET}/{uuid4().hex}"

    def options(self, *, port: int | None = None, request_timeout_s: float = 15.0) -> StoreOptions:
        """How to reach the server, or a proxy before it on another port."""
        return StoreOptions(
            region="us-east-1",
            endpoint=f"http://{self.host}:{port or self.port}",
            allow_http=True,
            access_key_id=_KEY_ID,
            secret_access_key=SecretStr(_SECRET),
            request_timeout_s=request_timeout_s,
        )


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """The server of the whole test run; a test that kills it starts it again."""
    server = S3Server(find_or_build(), folder := Path(tempfile.mkdtemp(prefix="lakestream-s3-")))
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder)


def s3_catalog(server: S3Server, folder: Path) -> CatalogSpec:
    """Tables in a new bucket of the server, their names in a SQLite file of the folder."""
    options = server.options()
    assert options.secret_access_key is not None
    return CatalogSpec(
        name="lake",
        warehouse=server.new_url(),
        properties={
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "s3.endpoint": options.endpoint or "",
            "s3.region": options.region or "",
            "s3.access-key-id": options.access_key_id or "",
            "s3.secret-access-key": options.secret_access_key.get_secret_value(),
        },
    )


def find_or_build() -> Path:
    """The server's binary: from the PATH, from the cache, or built into the cache."""
    cached = cache_folder() / "bin" / f"versitygw-{VERSION}"
    if cached.exists():
        return cached
    if on_path := shutil.which("versitygw"):
        return Path(on_path)
    go = shutil.which("go")
    if go is None:
        _not_available("Go is missing: install it from https://go.dev/dl to run the S3 tests")
    with one_at_a_time(cached.parent):
        if not cached.exists():
            _build(go, cached)
    return cached


def _build(go: str, cached: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cached.parent) as built:
        environ = {**os.environ, "GOBIN": built}
        result = run_patiently([go, "install", f"{_MODULE}@{VERSION}"], env=environ)
        if result.returncode != 0:
            _not_available(f"versitygw could not be built: {result.stderr[-500:]}")
        # Renamed when whole, so that another test run never starts half a binary.
        (Path(built) / "versitygw").rename(cached)


def _not_available(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _has_extended_attributes(folder: Path) -> bool:
    try:
        os.setxattr(folder, "user.lakestream", b"1")
    except OSError:
        return False
    return True


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
