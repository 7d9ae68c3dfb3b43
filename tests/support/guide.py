"""What a reader of the README types, typed, in a folder that looks like a clone.

The folder has the venv and the folders that commands name, and the platform's data in
`lakestream-data`, as the README has it. Only what a reader would replace as well is replaced: the
names in `example`, which are addresses, buckets, secrets and the id of a snapshot.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from tests.support.readme import Block, blocks, is_elsewhere
from tests.support.s3 import S3Server

ROOT: Final = Path(__file__).parents[2]
SNAPSHOT: Final = "2218103908735952803"
"""The snapshot of the README's examples."""
_WITHIN_S: Final = 240
_SESSION: Final = """
import json, sys
names, done = {}, sys.argv[1]
for line in sys.stdin:
    exec(compile(json.loads(line), "README.md", "exec"), names)
    print(done, flush=True)
"""
_DONE: Final = "-- done --"


class Clone:
    """A folder to type in; `example` says what stands for the README's names."""

    def __init__(
        self, folder: Path, example: Mapping[str, str], environ: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.example = dict(example)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("LAKESTREAM_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        # As `make` does: without bytecode every command compiles its modules anew, for seconds.
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        self.environ = {**kept, "PATH": path, "PYTHONPATH": str(ROOT), **(environ or {})}
        self._session: subprocess.Popen[str] | None = None
        (folder / ".venv").symlink_to(sys.prefix)
        for name in ("pipelines", "conf"):
            (folder / name).symlink_to(ROOT / name)

    def run(self, heading: str) -> None:
        """All blocks below the heading, in order; each must succeed and print what is shown."""
        for block in blocks(heading):
            printed = self.run_block(block)
            if block.prints is not None:
                check_printed(printed, self.replaced(block.prints), where=f"line {block.line}")

    def run_block(self, block: Block) -> str:
        match block.language:
            case "sh":
                mine = [each for each in block.commands if not is_elsewhere(each)]
                return self.shell("\n".join(mine)) if mine else ""
            case "python":
                return self.python(block.text)
            case "toml":
                return self.settings(block.text)
            case _:
                raise AssertionError(f"line {block.line}: nobody runs {block.language} here")

    def shell(self, script: str, codes: Container[int] = (0,)) -> str:
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", self.replaced(script)],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_WITHIN_S,
            check=False,
        )
        assert done.returncode in codes, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def settings(self, text: str) -> str:
        """Kept as the file that its first line names, and read by the program."""
        name = text.partition("\n")[0].removeprefix("# ")
        (self.folder / name).write_text(self.replaced(text), encoding="utf-8")
        return self.shell(f"lakestream config show --conf {name}")

    def python(self, program: str) -> str:
        """In one session, as in a notebook: names and a Spark stay from block to block."""
        if self._session is None:
            self._session = self._start()
        session = self._session
        writes, reads = _pipe(session.stdin), _pipe(session.stdout)
        writes.write(json.dumps(self.replaced(program)) + "\n")
        writes.flush()
        printed: list[str] = []
        for line in reads:
            if line.strip() == _DONE:
                return "".join(printed)
            printed.append(line)
        log = (self.folder / "python.log").read_text(encoding="utf-8")
        raise AssertionError(f"{program}\n{''.join(printed)}{log[-4000:]}")

    def replaced(self, text: str) -> str:
        for name, value in self.example.items():
            text = text.replace(name, value)
        return text

    def close(self) -> None:
        if self._session is not None:
            _pipe(self._session.stdin).close()
            self._session.wait(_WITHIN_S)
            _pipe(self._session.stdout).close()

    def _start(self) -> "subprocess.Popen[str]":
        with (self.folder / "python.log").open("w", encoding="utf-8") as log:
            return subprocess.Popen(
                [sys.executable, "-c", _SESSION, _DONE],
                cwd=self.folder,
                env=self.environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )


@contextmanager
def clone(
    folder: Path, example: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> Iterator[Clone]:
    made = Clone(folder, example, environ)
    try:
        yield made
    finally:
        made.close()


def example_of_deployment(s3: S3Server, postgres: str) -> dict[str, str]:
    """What stands for the README's bucket, database, secrets and hosts."""
    options = s3.options()
    assert options.secret_access_key is not None
    return {
        "s3://my-bucket/lake": s3.new_url(),
        "postgresql://lakestream:password@db.internal/lakestream": postgres,
        "eu-central-1": str(options.region),
        "my-key-id": str(options.access_key_id),
        "my-secret": options.secret_access_key.get_secret_value(),
        '# endpoint = "https://s3.example.com"': f'endpoint = "{options.endpoint}"',
        '# "s3.endpoint" = "https://s3.example.com"': f'"s3.endpoint" = "{options.endpoint}"',
        **{f"10.0.0.{number}": "127.0.0.1" for number in (1, 2, 3)},
    }


def check_printed(printed: str, shown: str, *, where: str) -> None:
    """Line by line but for numbers, ids and widths; `...` is any lines, `…` any text in a line."""
    patterns = [
        "(?:.*\n)*?" if line.strip() == "..." else f"{_pattern(line)}\n"
        for line in shown.strip().splitlines()
    ]
    told = "".join(f"{_plain(line)}\n" for line in printed.strip().splitlines())
    assert re.fullmatch("".join(patterns), told), f"{where} of README.md is printed as\n{printed}"


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in _plain(line).split("…"))


def _plain(line: str) -> str:
    line = re.sub(r"\b[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b", "ID", line)
    line = re.sub(r"\d+(?:[.,:-]\d+)*", "N", line)
    line = re.sub(r"-{2,}", "-", line)
    return re.sub(r"\s*\|\s*", "|", re.sub(r"\s+", " ", line)).strip()


def _pipe(stream: IO[Any] | None) -> IO[Any]:
    assert stream is not None
    return stream
