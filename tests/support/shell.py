"""`lakestream` as a person types it, in the test's own process or in one beside it."""

import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from subprocess import PIPE, Popen
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from lakestream_spark.cli.exits import run
from lakestream_spark.cli.group import lakestream

_ODD: Final = "surrogateescape"
"""How bytes that are no text are typed and read here, as in the arguments of a process."""


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str


class Shell:
    """Commands on one installation, whose brokers they find by themselves."""

    def __init__(self, flags: Sequence[str]) -> None:
        self._flags = flags

    def run(self, *words: str, given: str = "") -> Ended:
        out, err = TextIOWrapper(BytesIO(), errors=_ODD), TextIOWrapper(BytesIO(), errors=_ODD)
        standard = TextIOWrapper(BytesIO(given.encode(errors=_ODD)))
        with patch("sys.stdin", standard), redirect_stdout(out), redirect_stderr(err):
            code = run(lakestream, [*words, *self._flags])
        return Ended(code, _text(out), _text(err))

    def __call__(self, *words: str, given: str = "", code: int = 0) -> str:
        """What the command says, or complains about, which must end with this code."""
        ended = self.run(*words, given=given)
        assert ended.code == code, ended.out + ended.err
        return ended.out if code == 0 else ended.err

    def started(self, *words: str) -> "Popen[bytes]":
        """The command in a process of its own, with pipes."""
        command = [sys.executable, "-m", "lakestream_spark", *words, *self._flags]
        return Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE)

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))


def _text(stream: TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
