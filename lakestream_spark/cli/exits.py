"""How a command ends: every error of the tree has an exit code, and its text is one sentence.

An error that nobody foresaw has a traceback as well: with `--debug` where a person is there to ask
for it, in the log of a process where nobody is.
"""

import logging
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Final

import click

from lakestream_spark.cli.damage import judged
from lakestream_spark.core.errors import (
    Corrupt,
    Fenced,
    LakestreamError,
    Misconfigured,
    RedTable,
    Rejected,
    Transient,
)

_log: Final = logging.getLogger(__name__)

EXIT_CODES: Mapping[int, str] = {
    0: "done",
    1: "failed, or something is red",
    2: "wrong usage or settings",
    3: "something does not answer, try again",
    4: "fenced, another process took over",
    5: "stored data is damaged",
    130: "interrupted",
}

_CODE_OF: Sequence[tuple[type[LakestreamError], int]] = (
    # Before `Rejected`, of which it is one: what was asked is right, the table is not.
    (RedTable, 1),
    (Misconfigured, 2),
    (Rejected, 2),
    (Transient, 3),
    (Fenced, 4),
    (Corrupt, 5),
    (LakestreamError, 1),
)


def run(
    command: click.Command,
    args: Sequence[str] | None = None,
    *,
    name: str = "lakestream",
    debug: bool = False,
    attended: bool = True,
) -> int:
    """Run a command and return its exit code; never raises.

    `debug` is as if `--debug` was given; of a command that is not attended the log has the
    traceback of what nobody foresaw.
    """
    arguments = list(sys.argv[1:] if args is None else args)
    debug = debug or "--debug" in arguments
    try:
        result = command.main(arguments, prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        # The reader of our output is gone; say nothing, also not when Python flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _trace(attended=attended)
        return 1
    except LakestreamError as error:
        found = judged(error)
        _tell(str(found), debug=debug)
        return exit_code(found)
    except Exception as error:
        _trace(attended=attended)
        where = "--debug shows where" if attended else "the log says where"
        _tell(f"unexpected {type(error).__name__}: {error} ({where})", debug=debug)
        return 1
    # Outside standalone mode click returns the code of `ctx.exit` and the value of the command.
    return result if isinstance(result, int) else 0


def run_entry(command: click.Command, *, name: str) -> None:
    """Run the command of a file that Spark was given; leaves with its code unless all went well."""
    code = run(command, name=name, attended=False)
    # Databricks takes every SystemExit for a failure, also one with code 0.
    if code != 0:
        raise SystemExit(code)


def exit_code(error: LakestreamError) -> int:
    """The exit code of an error of our tree."""
    return next(code for kind, code in _CODE_OF if isinstance(error, kind))


def debugs(context: click.Context) -> bool:
    """Whether `--debug` was given before the command."""
    return bool(context.find_root().params.get("debug"))


def _trace(*, attended: bool) -> None:
    if not attended:
        _log.exception("an error that nobody foresaw ends the process")


def _tell(text: str, *, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    for line in text.splitlines():
        click.echo(f"lakestream: {line}", err=True)
