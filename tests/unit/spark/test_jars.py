"""The cache of Spark jars, and what is said when Java or pyspark is missing."""

import subprocess
from collections.abc import Sequence
from importlib import util
from pathlib import Path

import pytest

from lakestream_spark.core.errors import Misconfigured, Unavailable
from lakestream_spark.spark import jars


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return jars.cache_folder()


@pytest.fixture
def java(tmp_path, monkeypatch) -> Path:
    """A `java` that answers like the real one, with the version in the file beside it."""
    home = tmp_path / "java-home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text('#!/bin/sh\necho "openjdk version \\"17.0.2\\"" >&2\n')
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home / "bin" / "java"


def downloads(*names: str):
    """A stand-in for the resolver that leaves these files behind."""

    def download(spark_home: Path, scratch: Path, coordinates: Sequence[str]) -> Path:
        folder = scratch / "jars"
        folder.mkdir()
        for name in names:
            (folder / name).touch()
        return folder

    return download


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("nonsense", 0),
    ],
)
def test_reads_the_version_java_prints(text, version):
    assert jars.java_version(text) == version


def test_a_java_that_is_new_enough_is_returned(java):
    assert jars.require_java() == java


def test_an_old_java_is_refused_with_how_to_install_one(java):
    java.write_text('#!/bin/sh\necho "java version \\"1.8.0_392\\"" >&2\n')
    with pytest.raises(Misconfigured, match=r"Java 17 or newer: install it with .*version 8"):
        jars.require_java()


def test_no_java_is_refused_with_how_to_install_one(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Misconfigured, match="Java 17 or newer: install it with"):
        jars.require_java()


def test_no_pyspark_is_refused_with_how_to_install_it(monkeypatch):
    monkeypatch.setattr(jars, "find_spec", lambda name: None)
    with pytest.raises(Misconfigured, match=r"pip install 'lakestream-spark\[spark\]'"):
        jars.require_pyspark()


def test_jars_that_were_never_fetched_are_named_with_the_command(cache):
    with pytest.raises(Misconfigured, match=r"python -m lakestream_spark\.spark\.jars"):
        jars.jar_paths()


def test_fetches_once_and_then_uses_the_cache(cache, java, monkeypatch, capsys):
    monkeypatch.setattr(jars, "_download", downloads("b.jar", "a.jar"))
    monkeypatch.setattr(jars, "_archive_classes", lambda: None)
    assert jars.main() == 0
    assert "Fetching the Spark jars once" in capsys.readouterr().err
    monkeypatch.setattr(jars, "_download", None)
    assert jars.main() == 0
    assert capsys.readouterr().err == ""
    assert [path.name for path in jars.resolve()] == ["a.jar", "b.jar"]
    assert list(cache.parent.iterdir()) == [cache]


def test_the_jars_for_s3_are_fetched_beside_the_others_when_asked_for(
    cache, java, monkeypatch, capsys
):
    monkeypatch.setattr(jars, "_download", downloads("a.jar"))
    monkeypatch.setattr(jars, "_archive_classes", lambda: None)
    assert jars.s3_jar_paths() == []
    assert jars.main(["--s3"]) == 0
    assert capsys.readouterr().err.count("Fetching") == 2
    assert jars.s3_jar_paths() == [jars.cache_folder(jars.S3_COORDINATES) / "a.jar"]
    assert jars.jar_paths() == [cache / "a.jar"]
    assert jars.main(["--gs"]) == 2


def test_a_second_process_that_was_first_wins(cache, java, monkeypatch):
    def slower(spark_home: Path, scratch: Path, coordinates: Sequence[str]) -> Path:
        cache.mkdir()
        (cache / "first.jar").touch()
        return downloads("second.jar")(spark_home, scratch, coordinates)

    monkeypatch.setattr(jars, "_download", slower)
    assert [path.name for path in jars.resolve()] == ["first.jar"]


def test_a_failed_fetch_leaves_no_cache_and_one_sentence(cache, java, monkeypatch, capsys):
    failed = subprocess.CompletedProcess([], 1, stdout="", stderr="unresolved dependency")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    monkeypatch.setattr(jars, "require_java", lambda: java)
    with pytest.raises(Unavailable, match="could not be fetched"):
        jars.resolve()
    assert not cache.exists()
    assert "unresolved dependency" in (cache.parent / "last-failure.log").read_text()
    assert jars.main() == 3


def test_another_set_of_jars_has_another_folder(cache, monkeypatch):
    monkeypatch.setattr(jars, "COORDINATES", (*jars.COORDINATES, "org.example:more:1"))
    assert jars.cache_folder() != cache


@pytest.mark.spark
def test_nothing_that_spark_ships_is_in_the_cache():
    spec = util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    shipped = {artifact(path.name) for path in (Path(spec.origin).parent / "jars").iterdir()}
    cached = {artifact(path.name.partition("_")[2]) for path in jars.jar_paths()}
    assert cached
    assert not cached & shipped


def artifact(jar: str) -> str:
    """`name-1.2.3.jar` without its version."""
    return jar.rsplit("-", 1)[0]
