"""How the JVM of a local Spark is started."""

from pathlib import Path

import pytest

from lakestream_spark.spark import jvm


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the archive would be, in a cache of its own and for a Java of its own."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = jvm.archive_path()
    assert path is not None
    return path


def test_an_archive_that_is_there_is_used(archive: Path) -> None:
    assert not any("SharedArchiveFile" in each for each in jvm.jvm_options())
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in jvm.jvm_options()


def test_another_java_has_another_archive(archive: Path, tmp_path: Path) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.unlink()
    java.symlink_to("/bin/sh")
    assert jvm.archive_path() not in (None, archive)


def test_without_java_there_is_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert jvm.archive_path() is None
    assert jvm.jvm_options()
