"""The blocks of the README, and which test runs each of them.

A block belongs to the heading above it. A block of `text` right below another is what that one
prints; elsewhere it is a picture. Every other block is run: by the test that `RUN_BY` names for its
heading, but for single commands that `ELSEWHERE` leaves to the tests which run them anyhow.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

README: Final = Path(__file__).parents[2] / "README.md"

EMBEDDED: Final = (
    "tests/integration/guide/test_embedded.py::test_a_section_does_what_it_says_on_a_platform"
)
ON_S3: Final = "tests/integration/guide/test_on_s3.py::test_three_brokers_on_s3_and_postgresql"
DEPLOYED: Final = "S3, PostgreSQL and three brokers"
_CLIENTS: Final = "tests/integration/guide/test_clients.py::"

RUN_BY: Final[Mapping[str, str]] = {
    "Quick start": EMBEDDED,
    "Python": EMBEDDED,
    "Java": f"{_CLIENTS}test_the_java_program_produces",
    "Go": f"{_CLIENTS}test_the_go_program_produces",
    "Other clients": EMBEDDED,
    "Query": EMBEDDED,
    "SQL": EMBEDDED,
    "Spark": EMBEDDED,
    "Write from Spark": "tests/compat/test_spark_kafka.py::"
    "test_what_the_sink_writes_the_source_reads_as_batch_and_as_stream",
    "DuckDB": EMBEDDED,
    "pyiceberg": EMBEDDED,
    "Trino": ON_S3,
    "Snowflake": ON_S3,
    "Databricks": ON_S3,
    "Replay and time travel": EMBEDDED,
    "Topics and their tables": EMBEDDED,
    "Profiles": EMBEDDED,
    DEPLOYED: ON_S3,
    "Watch": EMBEDDED,
    "Verify": EMBEDDED,
    "Back-up": EMBEDDED,
    "Erase and retention": EMBEDDED,
    "Settings": EMBEDDED,
    "Commands and exit codes": EMBEDDED,
}
"""The test that runs all blocks below a heading."""

_DEMO: Final = "tests/integration/test_demo.py::test_the_story_is_told_in_its_order_as_plain_lines"
_DOCTOR: Final = (
    "tests/integration/test_commands.py::test_a_doctor_finds_the_stores_of_a_running_platform_well"
)
_BASE: Final = "tests/unit/test_project.py::test_a_base_install_is_a_command_without_pyspark"
_EXTRAS: Final = "tests/unit/test_project.py::test_an_extra_finds_all_that_it_asks_for"

ELSEWHERE: Final[Mapping[str, str]] = {
    "make run": _DEMO,
    "make run DATA=/tmp/lake PORT=19092 ADMIN_PORT=18092": _DEMO,
    "RUN_FOR=90 make run": _DEMO,
    # It runs the tests, so no test runs it: make tells what it would do.
    "make test": "tests/unit/test_front_door.py::"
    "test_make_test_checks_the_code_and_runs_all_but_the_long_tests",
    "lakestream up --data ./lakestream-data --port 9092": "tests/integration/test_up.py::"
    "test_a_record_sent_to_up_is_a_row_within_its_lag_and_at_once_after_a_flush",
    # Where Spark's classes are not archived yet it ends with code 1, and rightly so.
    "lakestream doctor": _DOCTOR,
    "lakestream doctor --conf lakestream.toml": "tests/integration/guide/test_doctor.py::"
    "test_the_settings_for_s3_and_postgresql_are_found_well",
    "python -m lakestream_spark.spark.jars --s3": "tests/integration/deploy/test_composition.py::"
    "test_upkeep_merges_files_on_s3_with_the_jars_for_it",
    "spark-submit pipelines/compact.py --conf lakestream.toml --trigger available-now": "tests/"
    "integration/test_standalone.py::"
    "test_a_job_on_a_spark_cluster_moves_everything_into_tables_on_s3",
    **dict.fromkeys(
        (
            f"spark-submit --properties-file pipelines/spark.conf pipelines/{job}"
            for job in (
                "maintain.py --conf lakestream.toml --once",
                "verify.py orders --conf lakestream.toml",
                "silver.py --conf lakestream.toml --checkpoint ./silver --trigger available-now",
            )
        ),
        "tests/integration/test_pipelines.py::"
        "test_the_jobs_that_open_tables_run_on_s3_as_the_readme_says",
    ),
    "pip install .": _BASE,
    **dict.fromkeys(
        (f"pip install .[{extra}]" for extra in ("postgres", "sql", "spark", "jobs", "quality")),
        _EXTRAS,
    ),
}
"""Commands that a test of something else runs, in other words at times."""


class Block(NamedTuple):
    """A fenced block: where it is, what it is, and what it prints, if the README shows that."""

    heading: str
    language: str
    text: str
    line: int
    prints: str | None = None

    @property
    def commands(self) -> list[str]:
        """Of a shell's block; one may take several lines."""
        found: list[str] = []
        begun = ""
        for line in self.text.splitlines(keepends=True):
            begun += line
            if _is_whole(begun):
                found.append(begun.strip())
                begun = ""
        return [command for command in found if words(command)]


def words(command: str) -> list[str]:
    """Without quotes and comments."""
    return shlex.split(command, comments=True)


def is_elsewhere(command: str) -> bool:
    return " ".join(words(command)) in ELSEWHERE


def blocks(heading: str | None = None) -> list[Block]:
    """All blocks that are to be run, or those below one heading."""
    return [each for each in _blocks() if heading in (None, each.heading)]


def python_blocks(heading: str) -> list[str]:
    return [each.text for each in blocks(heading) if each.language == "python"]


def headings_run_by(test: str) -> list[str]:
    return [heading for heading, each in RUN_BY.items() if each == test]


def _blocks() -> Iterator[Block]:
    above: Block | None = None
    for block, follows in fenced(README):
        if block.language == "text":
            # Right below a block that is run, it is what that one prints.
            if above is not None:
                yield above._replace(prints=block.text if follows else None)
            above = None
            continue
        if above is not None:
            yield above
        above = block
    if above is not None:
        yield above


def fenced(path: Path) -> Iterator[tuple[Block, bool]]:
    """Every fenced block of a file, and whether nothing parts it from the one before."""
    text = path.read_text(encoding="utf-8")
    end, heading = 0, ""
    for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        between = text[end : found.start()]
        headings = re.findall(r"^#{2,3} (.+)$", between, re.MULTILINE)
        heading, end = (headings or [heading])[-1], found.end()
        line = text.count("\n", 0, found.start()) + 1
        yield Block(heading, found[1], found[2], line), not between.strip()


def _is_whole(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return not command.rstrip("\n").endswith("\\")
