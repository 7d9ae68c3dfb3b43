"""The program with the franz-go scripts, built once into the user's cache."""

import os
import shutil
import subprocess
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.support.kafka_jars import cache_folder

_SOURCE: Final = Path(__file__).parents[1] / "compat" / "franz"
_BUILD_TIMEOUT_S: Final = 600


def franz_binary() -> Path:
    """The program as its source is now."""
    sources = [_SOURCE / name for name in ("go.mod", "go.sum", "main.go")]
    name = sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    built = cache_folder() / "bin" / f"franz-{name}"
    if built.exists():
        return built
    go = shutil.which("go")
    assert go is not None, "Go is missing: install it from https://go.dev/dl"
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
        done = subprocess.run(
            [go, "build", "-o", f"{scratch}/franz", "."],
            cwd=_SOURCE,
            env=os.environ,
            timeout=_BUILD_TIMEOUT_S,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        # Renamed when whole, so that another test run never starts half a program.
        (Path(scratch) / "franz").rename(built)
    return built
