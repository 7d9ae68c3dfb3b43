"""The program with the franz-go scripts, built once into the user's cache."""

import shutil
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.support.fetching import cache_folder, one_at_a_time, run_patiently

SOURCE: Final = Path(__file__).parents[1] / "compat" / "franz"


def franz_binary() -> Path:
    """The program as its source is now."""
    sources = [SOURCE / name for name in ("go.mod", "go.sum", "main.go")]
    name = sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    built = cache_folder() / "bin" / f"franz-{name}"
    if built.exists():
        return built
    go = shutil.which("go")
    assert go is not None, "Go is missing: install it from https://go.dev/dl"
    with one_at_a_time(built.parent):
        if not built.exists():
            _build(go, built)
    return built


def _build(go: str, built: Path) -> None:
    with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
        done = run_patiently([go, "build", "-o", f"{scratch}/franz", "."], cwd=SOURCE)
        assert done.returncode == 0, done.stderr[-2000:]
        # Renamed when whole, so that another test run never starts half a program.
        (Path(scratch) / "franz").rename(built)
