"""Kernels are compiled once and kept where only their user can write; without that, they work."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from lakestream_spark.kafka.arrow.compiled import announced
from lakestream_spark.kafka.arrow.kept import folder_for, name_of

PACKAGE = "lakestream_spark.kafka.arrow"
PROGRAM = """
import sys
from lakestream_spark.core.logs import configure
from lakestream_spark.kafka.arrow.decode import decode
from lakestream_spark.kafka.arrow.runs import Chunk
from lakestream_spark.kafka.records import Record, encode_batch
configure(level="info", form="text")
(piece,) = decode([Chunk(encode_batch([Record(5, 1, None, b"v")]))])
assert piece.columns.offsets.to_pylist() == [5]
"""
WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.kafka.codecs import Codec
from lakestream_spark.kafka.records import Record
from lakestream_spark.kafka.arrow.runs import Chunk
from lakestream_spark.table.arrow_rows import batches_of, rows_of
from lakestream_spark.table.rows import Row, to_arrow
(batch,) = batches_of(to_arrow(0, [Row(Record(0, 1, None, b"v"), False)]), (0, 1), codec=Codec.LZ4)
try:
    list(rows_of(0, [Chunk(batch)]))
except Misconfigured as error:
    print(error, file=sys.stderr)
"""


def run(program: str, **environment: str) -> str:
    """What a process of its own logs; it ends well."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_a_cold_start_says_that_it_compiles_and_a_warm_one_is_silent(tmp_path: Path) -> None:
    cold = run(PROGRAM, NUMBA_CACHE_DIR=str(tmp_path))
    assert "compiling the record kernels, once, about" in cold
    assert cold.count("\n") == 2, "one line before, one after"
    assert run(PROGRAM, NUMBA_CACHE_DIR=str(tmp_path)) == ""
    for kept in tmp_path.rglob("*.nbi"):
        kept.write_bytes(b"damaged")
    assert "are of no use" in run(PROGRAM, NUMBA_CACHE_DIR=str(tmp_path))


@pytest.mark.timeout(600)
def test_what_is_compiled_is_announced_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with announced(None):
        for signature in ("int64(int64)", "float64(float64)"):
            numba.njit(signature)(lambda number: number + 1)
    assert [line.message for line in caplog.records] == [
        "compiling the record kernels, for this process only, about 10 s",
        "the record kernels are compiled",
    ]


def test_without_numba_rows_are_encoded_and_decoding_says_what_to_install() -> None:
    assert "pip install 'lakestream-spark[jobs]'" in run(WITHOUT_NUMBA)


def test_a_name_changes_with_the_versions_and_not_by_itself() -> None:
    assert name_of(PACKAGE, ["1"]) == name_of(PACKAGE, ["1"])
    assert name_of(PACKAGE, ["1"]) != name_of(PACKAGE, ["2"])


def test_the_users_cache_folder_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folder_for("name") == tmp_path / "lakestream" / "kernels" / "name"
    assert folder_for("name", preferred=str(tmp_path / "other")) != folder_for("name")


def test_where_nothing_can_be_kept_there_is_another_place_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(file))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    temporary = folder_for("name")
    assert temporary is not None
    assert temporary.is_relative_to(tmp_path / f"lakestream-{os.getuid()}")
    monkeypatch.setattr("tempfile.tempdir", str(file))
    assert folder_for("name") is None


def test_a_folder_that_others_can_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "lakestream" / "kernels" / "name"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = folder_for("name")
    assert found is not None
    assert not found.is_relative_to(tmp_path / "lakestream")
