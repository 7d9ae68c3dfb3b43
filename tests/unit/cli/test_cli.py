"""The command line: quick help, one sentence for an error, documented exit codes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from unittest.mock import Mock

import click
import pytest

from lakestream_spark.cli.exits import EXIT_CODES, exit_code, run, run_entry
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


def test_the_log_of_a_process_that_nobody_attends_has_the_traceback_of_an_unexpected_error(
    capsys, caplog
):
    assert run(raising(ZeroDivisionError("words")), [], attended=False) == 1
    assert capsys.readouterr().err == (
        "lakestream: unexpected ZeroDivisionError: words (the log says where)\n"
    )
    (told,) = caplog.records
    assert told.exc_info is not None
    assert told.exc_info[0] is ZeroDivisionError


def test_a_pipe_that_broke_is_in_the_log_of_a_process_that_nobody_attends(caplog, monkeypatch):
    monkeypatch.setattr("os.dup2", Mock())
    monkeypatch.setattr("os.open", Mock())
    monkeypatch.setattr(sys, "stdout", Mock())
    assert run(raising(BrokenPipeError("words")), [], attended=False) == 1
    assert [record.exc_info[0] for record in caplog.records] == [BrokenPipeError]


def test_an_error_that_was_foreseen_is_one_sentence_where_nobody_attends(capsys, caplog):
    assert run(raising(errors.Unavailable("words")), [], attended=False) == 3
    assert capsys.readouterr().err == "lakestream: words\n"
    assert caplog.records == []


def test_a_file_that_spark_was_given_logs_where_an_unexpected_error_was(
    caplog, capsys, monkeypatch
):
    monkeypatch.setattr(sys, "argv", ["compact.py"])
    with pytest.raises(SystemExit) as ended:
        run_entry(raising(ZeroDivisionError("words")), name="compact.py")
    assert ended.value.code == 1
    assert [record.exc_info[0] for record in caplog.records] == [ZeroDivisionError]
    assert "--debug" not in capsys.readouterr().err


@pytest.mark.parametrize(("flags", "wanted"), [((), False), (("--debug",), True)])
@pytest.mark.parametrize("command", [("up",), ("ingress", "--workers", "2")])
def test_processes_below_are_told_of_debug(command, flags, wanted, monkeypatch, tmp_path):
    supervise = Mock(return_value=0)
    monkeypatch.setattr(f"lakestream_spark.cli.{command[0]}.supervise", supervise)
    assert run(lakestream, [*flags, *command, "--data", str(tmp_path)]) == 0
    assert supervise.call_args.kwargs["debug"] is wanted


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
