"""The group of all commands: a table of names, modules and sentences."""

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple, cast

import click

from lakestream_spark import __version__
from lakestream_spark.cli.exits import EXIT_CODES
from lakestream_spark.core.errors import Misconfigured


class CommandEntry(NamedTuple):
    """A command that is imported when it is called: `module:attribute` and its line in the help."""

    target: str
    sentence: str


COMMANDS: Mapping[str, CommandEntry] = {
    "compact": CommandEntry(
        "lakestream_spark.cli.compact:compact",
        "Move records from the WAL into the tables, in a local Spark.",
    ),
    "config": CommandEntry(
        "lakestream_spark.cli.config:config", "Show the settings, where each came from, their docs."
    ),
    "connect": CommandEntry(
        "lakestream_spark.cli.connect:connect",
        "Print what to type into an engine to read a topic's table.",
    ),
    "consume": CommandEntry(
        "lakestream_spark.cli.consume:consume",
        "Print records: those in the table and those that come, in one stream.",
    ),
    "cost": CommandEntry(
        "lakestream_spark.cli.cost:cost",
        "Tell what a month of a stream costs, beside Kafka on replicated disks.",
    ),
    "demo": CommandEntry(
        "lakestream_spark.cli.demo.command:demo",
        "Run the platform with a shop's orders and payments, and tell what becomes of them.",
    ),
    "doctor": CommandEntry(
        "lakestream_spark.cli.doctor:doctor",
        "Try what an installation needs, and say what is wrong and what to do about it.",
    ),
    "flush": CommandEntry(
        "lakestream_spark.cli.flush:flush",
        "Have the running compaction commit everything acknowledged so far, and wait.",
    ),
    "group": CommandEntry(
        "lakestream_spark.cli.groups:group",
        "List, describe, move and delete consumer groups.",
    ),
    "ingress": CommandEntry(
        "lakestream_spark.cli.ingress:ingress",
        "Run Kafka brokers until they are told to stop.",
    ),
    "maintain": CommandEntry(
        "lakestream_spark.cli.maintain:maintain",
        "Merge small files, expire snapshots, collect orphans, mirror Delta, apply retention.",
    ),
    "offsets": CommandEntry(
        "lakestream_spark.cli.offsets:offsets",
        "Show which offsets a snapshot of a table reaches, or which snapshot reaches an offset.",
    ),
    "produce": CommandEntry(
        "lakestream_spark.cli.produce:produce",
        "Send a record for each line of the standard input, and wait until all are acknowledged.",
    ),
    "sql": CommandEntry(
        "lakestream_spark.cli.sql:sql",
        "Ask a query of DuckDB's SQL over topics: their tables and what is not in them yet.",
    ),
    "status": CommandEntry(
        "lakestream_spark.cli.status:status",
        "Show every topic: stream, table, lag, bytes in WAL and table, and what is wrong with it.",
    ),
    "topic": CommandEntry(
        "lakestream_spark.cli.topic:topic", "Create, list, describe, alter and delete topics."
    ),
    "up": CommandEntry(
        "lakestream_spark.cli.up:up",
        "Run a broker and the compaction of its topics together.",
    ),
    "verify": CommandEntry(
        "lakestream_spark.cli.verify:verify_command",
        "Compare stream and table over a range of offsets, and certify that they are one.",
    ),
}


EXTRAS: Mapping[str, str] = {
    "pyspark": "spark",
    "deltalake": "spark",
    "duckdb": "sql",
    "asyncpg": "postgres",
}
"""Which extra brings a module that the default install does without."""


class LazyGroup(click.Group):
    """A group that lists its commands from `COMMANDS` and imports one only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        try:
            return cast(click.Command, getattr(import_module(module), attribute))
        except ModuleNotFoundError as error:
            extra = EXTRAS.get(error.name or "")
            if extra is None:
                raise
            install = f"pip install 'lakestream-spark[{extra}]'"
            raise Misconfigured(f"`lakestream {cmd_name}` needs {error.name}: {install}") from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(n, COMMANDS[n].sentence) for n in self.list_commands(ctx)])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: " + "; ".join(f"{code} {text}" for code, text in EXIT_CODES.items()) + ".",
)
@click.version_option(__version__, prog_name="lakestream")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def lakestream(debug: bool) -> None:
    """One stream, written once: a live Kafka stream and an open table in storage you own."""
