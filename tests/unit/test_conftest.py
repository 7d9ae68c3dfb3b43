"""The hooks in tests/conftest.py, on a small suite of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
SUITE = """
import pytest

@pytest.mark.s3
def test_needs_a_server():
    pytest.skip("Go is missing")

def test_elsewhere():
    pytest.skip("by design: only on another system")

@pytest.mark.xfail(reason="known")
def test_expected_to_fail():
    assert False

def test_passes():
    pass
"""
MODULE = "import pytest\npytest.importorskip('no_such_module')\n"


@pytest.fixture
def suite(tmp_path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = s3\n    spark\n")
    return tmp_path


def outcome(folder: Path, **variables: str) -> tuple[int, str]:
    quick = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment = {k: v for k, v in os.environ.items() if k != "CI"} | quick | variables
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore", "-q"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_a_skip_is_a_skip_at_home_and_the_summary_says_what_was_missing(suite):
    code, text = outcome(suite)
    assert code == 0
    assert "1 passed, 2 skipped, 1 xfailed" in text
    assert "1 S3 tests were skipped: Go is missing" in text


def test_a_skip_is_a_failure_in_ci_unless_it_is_by_design(suite):
    code, text = outcome(suite, CI="true")
    assert code == 1
    assert "1 failed, 1 passed, 1 skipped, 1 xfailed" in text
    assert "skipped, which is a failure in CI: Go is missing" in text


def test_a_module_that_skips_itself_is_a_failure_in_ci(suite):
    (suite / "test_module.py").write_text(MODULE)
    code, text = outcome(suite, CI="true")
    assert code != 0
    assert "skipped, which is a failure in CI" in text


def test_a_run_without_any_test_fails(suite):
    (suite / "test_suite.py").unlink()
    assert outcome(suite)[0] == 5
