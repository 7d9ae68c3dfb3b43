"""The command `lakestream`: one module per command, loaded when it is called.

Owns what all commands share: the group that knows the commands without importing them (`group`),
the common options (`options`) and how an error ends the process (`exits`). What always holds: an
error is one sentence on stderr with a documented exit code, a traceback comes only with `--debug`
or, of what nobody foresaw in a process that nobody attends, in its log, and `lakestream --help`
imports nothing but click.
"""

from lakestream_spark.cli.exits import run
from lakestream_spark.cli.group import lakestream


def main() -> None:
    """Run the command line and end the process."""
    raise SystemExit(run(lakestream))
