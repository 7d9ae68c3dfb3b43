import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from signal import SIGKILL
from threading import Thread
from uuid import UUID

import pytest

from lakestream_spark.cli.ailments import Sick, sick_of
from lakestream_spark.cli.clocks import Clocks
from lakestream_spark.cli.exits import run
from lakestream_spark.cli.group import lakestream
from lakestream_spark.cli.store_checks import try_store
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.core.ids import TopicId
from lakestream_spark.objectstore.local import LocalStore
from lakestream_spark.objectstore.memory import MemoryStore
from lakestream_spark.objectstore.open import open_store
from lakestream_spark.objectstore.store import ObjectInfo
from lakestream_spark.spark.jars import S3_COORDINATES, cache_folder
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.layout import TOPIC_ID_PROPERTY
from tests.support.clock import SimulatedClock
from tests.support.embedded import catalog_spec
from tests.support.ingress_process import ingress
from tests.support.lake_place import on_s3
from tests.support.postgres import postgres_server, postgres_url
from tests.support.s3 import S3Server, s3_server
from tests.support.shell import Shell
from tests.support.small_disk import fill, small_disk
from tests.support.stream_tables import StreamTable
from tests.support.tables import TableFiles
from tests.support.verified import TOPIC, Platform

__all__ = ["postgres_server", "postgres_url", "s3_server", "small_disk"]


def findings(
    capsys: pytest.CaptureFixture[str], *words: str, code: int
) -> dict[str, dict[str, object]]:
    assert run(lakestream, ["doctor", "--json", *words]) == code
    return {each["what"]: each for each in json.loads(capsys.readouterr().out)}


def test_a_platform_that_is_still_to_be_made_is_looked_at_and_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    data = tmp_path / "deep" / "data"
    found = findings(capsys, "--data", str(data), code=1)
    for what in ("metadata store", f"WAL in {data.as_uri()}", "catalog lake", "warehouse"):
        assert found[what]["is_well"], found[what]
        assert "is not there yet: `lakestream up` makes it" in str(found[what]["about"])
    assert found["tables"]["about"] == "none yet"
    assert not data.parent.exists()
    # Nothing of Spark is there, and each says what to do.
    assert "install it with" in str(found["Java"]["about"])
    assert "python -m lakestream_spark.spark.jars" in str(found["Spark's jars"]["about"])
    assert "Spark's jars for S3" not in found


def test_what_is_tried_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "la ke"
    data.mkdir()
    platform = Platform(folder=data)
    platform.send(3)
    platform.commit()
    before = set(data.rglob("*"))
    assert run(lakestream, ["doctor", "--json", "--data", str(data)]) in (0, 1)
    found = {each["what"]: each for each in json.loads(capsys.readouterr().out)}
    for what in ("metadata store", f"WAL in {data.as_uri()}", "catalog lake", "warehouse"):
        assert found[what]["is_well"], found[what]
    assert "write, read, list and delete work" in found[f"WAL in {data.as_uri()}"]["about"]
    assert set(data.rglob("*")) == before


def test_a_place_that_cannot_be_made_is_sick(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    found = findings(capsys, "--data", str(tmp_path / "file" / "data"), code=1)
    for what in ("metadata store", "catalog lake", "warehouse"):
        assert "is no folder that this user may write to" in str(found[what]["about"])
        assert "name another place with --data" in str(found[what]["advice"])


def test_a_full_disk_is_to_be_given_room(
    small_disk: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    data = small_disk(4) / "data"
    data.mkdir()
    fill(data.parent)
    found = findings(capsys, "--data", str(data), code=1)
    for what in ("metadata store", f"WAL in {data.as_uri()}", "warehouse"):
        assert "full" in str(found[what]["about"]), found[what]
        assert str(found[what]["advice"]).startswith("make room on it"), found[what]
    assert "writing does not work: " in str(found[f"WAL in {data.as_uri()}"]["about"])


@contextmanager
def refusing(code: str) -> Iterator[str]:
    """A store that answers everything with 403 and this code; its address."""
    body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()

    class Refusal(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(403)
            self.send_header("content-type", "application/xml")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nothing on the standard error."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusal) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            serving.join()


def on_a_bucket(folder: Path, endpoint: str) -> list[str]:
    """The flags of an installation whose databases are in a folder and whose bucket is there."""
    reach = {"s3.endpoint": endpoint, "s3.region": "r", "s3.access-key-id": "i"}
    settings = {
        "metadata.url": f"sqlite:///{folder}/metadata.db",
        "catalog.uri": f"sqlite:///{folder}/catalog.db",
        "store.endpoint": endpoint,
        "store.region": "r",
        "store.allow_http": "true",
        "store.access_key_id": "i",
        "store.secret_access_key": "s",
        "catalog.properties": json.dumps({**reach, "s3.secret-access-key": "s"}),
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return ["--data", "s3://bucket/lake", *words]


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("AccessDenied", "let these credentials read, write, list and delete below it"),
        ("RequestTimeTooSkewed", "set this machine's clock by NTP"),
        ("SignatureDoesNotMatch", "give keys that are right and not expired"),
    ],
)
def test_a_store_that_refuses_says_whether_rights_clock_or_keys_are_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: str, advice: str
) -> None:
    with refusing(code) as endpoint:
        found = findings(capsys, *on_a_bucket(tmp_path, endpoint), code=1)
    for what in ("WAL in s3://bucket/lake", "warehouse"):
        assert str(found[what]["advice"]).startswith(advice), found[what]
    assert "writing does not work: " in str(found["WAL in s3://bucket/lake"]["about"])


def test_tables_on_s3_need_jars_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with refusing("AccessDenied") as endpoint:
        sick = findings(capsys, *on_a_bucket(tmp_path, endpoint), code=1)["Spark's jars for S3"]
        assert sick["advice"] == "run `python -m lakestream_spark.spark.jars --s3`"
        folder = cache_folder(S3_COORDINATES)
        folder.mkdir(parents=True)
        (folder / "bundle.jar").touch()
        well = findings(capsys, *on_a_bucket(tmp_path, endpoint), code=1)["Spark's jars for S3"]
    assert (well["is_well"], well["about"]) == (True, "1 jars")


async def test_a_store_that_was_tried_is_left_clean_and_tells_its_time(tmp_path: Path) -> None:
    clocks = Clocks()
    tried = await try_store(LocalStore(tmp_path), SimulatedClock())
    clocks.seen("s3://bucket", tried.theirs_ms, tried.ours_ms)
    with pytest.raises(Sick, match=r"clock of s3://bucket and this one's differ by [0-9,]+ s") as e:
        clocks.compared()
    assert "timedatectl set-ntp true" in e.value.advice
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_clocks_that_differ_by_less_than_matters_are_told() -> None:
    clocks = Clocks()
    clocks.seen("file:///lake", 5_000, 0)
    assert clocks.compared() == "no other machine told its time; on one machine there is one clock"
    clocks.seen("s3://bucket", 1_000, 2_700)
    clocks.seen("PostgreSQL", 1_003, 1_000)
    assert clocks.compared() == "within 2 s of that of s3://bucket and 1 s of that of PostgreSQL"


def test_brokers_are_those_that_the_metadata_store_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told() -> object:
        assert run(lakestream, ["doctor", "--json", "--data", str(tmp_path)]) in (0, 1)
        return {e["what"]: e["about"] for e in json.loads(capsys.readouterr().out)}["broker"]

    assert told() == "none runs: `lakestream up` starts one"
    with ingress(tmp_path) as process:
        address = process.ready()[0].kafka
        assert told() == f"listening on {address}"
        process.stop(SIGKILL)
    assert told() == f"nobody answers at {address}, where one was: `lakestream up` starts one"


@pytest.mark.parametrize(
    ("file", "what"), [("metadata.db", "metadata store"), ("catalog.db", "catalog lake")]
)
def test_a_damaged_file_is_to_be_restored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, what: str
) -> None:
    (tmp_path / file).write_bytes(b"no database" * 1000)
    found = findings(capsys, "--data", str(tmp_path), code=1)[what]
    assert str(found["advice"]).startswith("put a back-up of it in its place"), found


def test_java_is_shown_with_its_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.4\" 2024-07-16' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert run(lakestream, ["doctor", "--json", "--data", str(tmp_path)]) in (0, 1)
    (found,) = (e for e in json.loads(capsys.readouterr().out) if e["what"] == "Java")
    assert found["about"] == f"21.0.4 in {java}"


class Forgetful(MemoryStore):
    """Takes objects and does not list them."""

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        async for each in super().list(f"{prefix}nowhere/"):
            yield each


async def test_a_store_that_does_not_list_what_it_took_is_not_to_be_used() -> None:
    with pytest.raises(Sick, match="not listed after it was written") as raised:
        await try_store(Forgetful("memory://lake"), SystemClock())
    assert "do not use it" in raised.value.advice


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (OSError("AWS Error REQUEST_TIME_TOO_SKEWED during PutObject"), "set this machine's clock"),
        (OSError("AWS Error ACCESS_DENIED during HeadObject"), "let these credentials"),
        (OSError(28, "No space left on device"), "make room on it"),
        (PermissionError(13, "Permission denied"), "let this user write there"),
        (Misconfigured("s3://b does not exist", code="NoSuchBucket"), "make the bucket"),
        (Misconfigured("s3://b is in another region", status=301), "name the bucket's region"),
        (Misconfigured("catalog.uri is none"), "mend this setting"),
        (RuntimeError("who knows"), "look at its own log"),
    ],
)
def test_every_error_gets_the_advice_for_its_cause(error: Exception, advice: str) -> None:
    assert sick_of(error).advice.startswith(advice)


@pytest.mark.s3
@pytest.mark.postgres
@pytest.mark.timeout(func_only=True)
async def test_a_bucket_and_a_postgresql_that_work_are_well(
    tmp_path: Path, s3_server: S3Server, postgres_url: str
) -> None:
    place = on_s3(tmp_path, s3_server, postgres_url)
    ended = await asyncio.to_thread(Shell(place.flags).run, "doctor", "--json")
    found = {each["what"]: each for each in json.loads(ended.out)}
    for what in ("metadata store", f"WAL in {place.data}", "catalog lake", "warehouse", "tables"):
        assert found[what]["is_well"], found[what]
    assert "write, read, list and delete work" in found[f"WAL in {place.data}"]["about"]
    near = f"within [12] s of that of PostgreSQL and [12] s of that of {place.data}"
    assert re.fullmatch(near, found["clock"]["about"]), found["clock"]
    assert found["tables"]["about"] == "those of 0 topics fit what the metadata store knows"
    bucket = open_store(place.data, s3_server.options())
    # The warehouse itself: pyarrow marks a folder that it has emptied.
    assert {each.key async for each in bucket.list("")} <= {"warehouse"}


def test_what_cannot_be_reached_is_named_and_the_rest_is_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    words = ("--data", str(tmp_path), "--set", f"store.url={(tmp_path / 'file').as_uri()}")
    found = findings(capsys, *words, code=1)
    sick = [what for what, each in found.items() if not each["is_well"] and "WAL" in what]
    assert sick == [f"WAL in {(tmp_path / 'file').as_uri()}"]
    assert found["metadata store"]["is_well"]
    assert found["catalog lake"]["is_well"]


def test_people_see_a_line_for_each_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert run(lakestream, ["doctor", "--data", str(tmp_path)]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "sick Java" in shown
    assert "lakestream up" in shown


def test_table_beyond_a_restored_metadata_store_is_sick(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    platform = Platform(folder=tmp_path)
    platform.send(3)
    platform.commit()
    topic_id = TopicId(UUID(platform.table().properties[TOPIC_ID_PROPERTY]))
    with closing(StreamCatalog.open(catalog_spec(tmp_path))) as tables:
        layout = tables.layout(topic_id, TOPIC)
        stream = StreamTable(tables=tables, files=TableFiles(folder=tmp_path, layout=layout))
        assert run(lakestream, ["doctor", "--json", "--data", str(tmp_path)]) in (0, 1)
        (well,) = (e for e in json.loads(capsys.readouterr().out) if e["what"] == "tables")
        assert well["is_well"], well
        stream.append(4)
    sick = findings(capsys, "--data", str(tmp_path), code=1)["tables"]
    assert not sick["is_well"]
    assert "up to offset 7, but the metadata store knows no more than 3" in str(sick["about"])
    assert "newer back-up" in str(sick["advice"])
