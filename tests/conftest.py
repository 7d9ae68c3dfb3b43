"""Shared hooks: Hypothesis profiles, the order of files, skips that fail in CI, a summary of what
was not tested.

In CI a skip is a failure, because that is how a missing server goes unnoticed. A test that cannot
run anywhere but somewhere else says so with a reason that starts with "by design:".
"""

import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.spark.jars import jar_paths, require_java

BY_DESIGN = "by design:"
_SERVERS = (
    ("s3", "S3"),
    ("postgres", "PostgreSQL"),
    ("spark", "Spark"),
    ("browser", "browser"),
)
_LONG = ("long", "spark")
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
IN_CI = bool(os.environ.get("CI"))
# For every Spark that a test starts, in whatever process: it ends before better code pays.
for _jvm in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(_jvm, "-XX:TieredStopAtLevel=1")

settings.register_profile(
    "fast",
    max_examples=50,
    stateful_step_count=30,
    deadline=None,
    # The same code gets the same verdict; `thorough` draws new examples every time.
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough",
    settings.get_profile("fast"),
    max_examples=1000,
    stateful_step_count=80,
    derandomize=False,
)
settings.load_profile("fast")


@pytest.fixture(autouse=True)
def no_signal_is_ignored() -> Iterator[None]:
    """A process that ignores a signal hands that on to all it starts, for every later test."""
    yield
    ignored = [each for each in _SIGNALS if signal.getsignal(each) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    assert not ignored, "the test leaves signals ignored"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _long_files_first(items)
    _skip_what_cannot_start(items)


def _long_files_first(items: list[pytest.Item]) -> None:
    """Side by side, a long file that begins last would be waited for by all the others."""
    long = {item.path for item in items if any(map(item.get_closest_marker, _LONG))}
    items.sort(key=lambda item: item.path not in long)


def _skip_what_cannot_start(items: list[pytest.Item]) -> None:
    """What needs Spark where Spark cannot start, with the sentence that says why."""
    needs_spark = [item for item in items if item.get_closest_marker("spark")]
    if not needs_spark:
        return
    try:
        require_java()
        jar_paths()
    except Misconfigured as error:
        for item in needs_spark:
            item.add_marker(pytest.mark.skip(reason=str(error)))


def _skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str | None:
    """The reason of a real skip (not of an expected failure), or None."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return None
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def _fail_if_skipped_in_ci(report: pytest.TestReport | pytest.CollectReport) -> None:
    reason = _skip_reason(report)
    if IN_CI and reason is not None and not reason.startswith(BY_DESIGN):
        report.outcome = "failed"
        report.longrepr = f"skipped, which is a failure in CI: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_skipped_in_ci(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_skipped_in_ci(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each kind of server that was not there."""
    skipped = terminalreporter.stats.get("skipped", [])
    for marker, what in _SERVERS:
        reports = [report for report in skipped if marker in report.keywords]
        if reports:
            why = _skip_reason(reports[0])
            terminalreporter.write_line(f"{len(reports)} {what} tests were skipped: {why}")
