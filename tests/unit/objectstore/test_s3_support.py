from pathlib import Path

import pytest

from tests.support.s3 import find_or_build


@pytest.fixture
def _nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.usefixtures("_nothing_installed")
def test_without_go_the_s3_tests_are_skipped_with_the_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="Go is missing"):
        find_or_build()


@pytest.mark.usefixtures("_nothing_installed")
def test_without_go_the_s3_tests_fail_in_ci(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="Go is missing"):
        find_or_build()
