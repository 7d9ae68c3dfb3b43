"""The command as it was typed, so that what is printed can be typed as well."""

import shlex
import sys
from pathlib import Path


def program() -> str:
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return "python -m lakestream_spark"
    here = Path.cwd()
    near = called.relative_to(here) if called.is_relative_to(here) else called
    return shlex.quote(str(near))
