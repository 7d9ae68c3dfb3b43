"""The command line: quick help, one sentence for an error, documented exit codes."""

import os
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from lakestream_spark.cli.exits import EXIT_CODES, exit_code, run
from lakestream_spark.cli.group import COMMANDS, LazyGroup, lakestream
from lakestream_spark.core import errors
from lakestream_spark.core.errors import LakestreamError
from tests.support.readme import README


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in [name for name in os.environ if name.startswith("LAKESTREAM_")]:
        monkeypatch.delenv(name)


def raising(error: BaseException) -> click.Command:
    @click.command()
    @click.option("--debug", is_flag=True)
    def command(debug: bool) -> None:
        raise error

    return command


def error_types(kind: type[LakestreamError] = LakestreamError) -> Iterator[type[LakestreamError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from error_types(child)


@pytest.mark.parametrize("kind", list(error_types()), ids=lambda kind: kind.__name__)
def test_every_error_has_a_documented_exit_code(kind):
    assert exit_code(kind("words")) in EXIT_CODES


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.Misconfigured("words"), 2),
        (errors.UnknownTopic("words"), 2),
        (errors.RedTable("words"), 1),
        (errors.Unavailable("words"), 3),
        (errors.Fenced("words"), 4),
        (errors.UnsupportedVersion("words"), 5),
        (errors.LakestreamError("words"), 1),
    ],
)
def test_an_error_is_one_sentence_without_a_traceback(error, code, capsys):
    assert run(raising(error), []) == code
    assert capsys.readouterr().err == "lakestream: words\n"


def test_the_traceback_comes_with_debug(capsys):
    run(raising(errors.Fenced("words")), ["--debug"])
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_unexpected_error_is_named_with_its_type(capsys):
    assert run(raising(ZeroDivisionError("words")), []) == 1
    assert capsys.readouterr().err == (
        "lakestream: unexpected ZeroDivisionError: words (--debug shows where)\n"
    )


def test_an_interrupt_ends_with_130(capsys):
    assert run(raising(KeyboardInterrupt()), []) == 130


def test_wrong_usage_ends_with_2(capsys):
    assert run(lakestream, ["no-such-command"]) == 2
    assert "No such command" in capsys.readouterr().err


def test_an_empty_query_is_refused(capsys):
    assert run(lakestream, ["sql", " ; "]) == 2
    assert "the query is empty: give one, such as" in capsys.readouterr().err


def test_help_lists_every_command_and_exit_code(capsys):
    assert run(lakestream, ["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"{name} {entry.sentence}" in text for name, entry in COMMANDS.items())
    assert all(f"{code} {words}" in text for code, words in EXIT_CODES.items())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_of_itself_what_the_table_says(name):
    context = click.Context(lakestream)
    assert isinstance(lakestream, LazyGroup)
    command = lakestream.get_command(context, name)
    assert command is not None
    assert (command.help or "").partition("\n")[0] == COMMANDS[name].sentence


def commands(found: click.Command, *path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(found, click.Group):
        yield " ".join(path), found
        return
    context = click.Context(found)
    for name in found.list_commands(context):
        own = found.get_command(context, name)
        assert own is not None
        yield from commands(own, *path, name)


def test_all_commands_but_those_that_ask_no_installation_take_its_settings():
    taken = {
        name: {flag for parameter in own.params for flag in parameter.opts}
        for name, own in commands(lakestream)
    }
    without = {name for name, flags in taken.items() if not {"--data", "--conf", "--set"} <= flags}
    assert without == {"cost", "config docs", "topic settings"}
    assert all(f"`{name}`" in README.read_text(encoding="utf-8") for name in without)


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from lakestream_spark.cli import run, lakestream; run(lakestream, ['--help']);"
        "heavy = {'pydantic', 'pyarrow', 'pyspark', 'sqlalchemy', 'pyiceberg', 'obstore', 'rich',"
        "'duckdb', 'confluent_kafka', 'numba', 'asyncio'};"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_whose_extra_is_not_installed_says_what_to_install():
    code = (
        "import sys; sys.modules['duckdb'] = None;"
        "from lakestream_spark.cli import run, lakestream;"
        "sys.exit(run(lakestream, ['sql', 'SELECT 1']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    sentence = "`lakestream sql` needs duckdb: pip install 'lakestream-spark[sql]'"
    assert (done.returncode, done.stderr) == (2, f"lakestream: {sentence}\n")


def test_a_broker_loads_tables_and_migrations_only_when_they_are_needed():
    code = (
        "import sys; import lakestream_spark.cli.ingress, lakestream_spark.cli.worker;"
        "heavy = {'pandas', 'pyarrow', 'pyspark', 'sqlalchemy', 'alembic', 'pyiceberg'};"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_commands_on_topics_groups_and_records_start_without_tables():
    code = (
        "import sys; from lakestream_spark.cli import consume, groups, produce, topic;"
        "heavy = {'pandas', 'pyarrow', 'pyspark', 'sqlalchemy', 'pyiceberg', 'duckdb'};"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_module_is_the_command():
    command = [sys.executable, "-m", "lakestream_spark", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("lakestream, version ")
