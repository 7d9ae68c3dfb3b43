"""What tests fetch or build once into the user's cache.

What always holds: of several test runs one works on a folder at a time, the others wait for it; and
a command that failed, as the network makes commands do, is tried again before the tests fail.
"""

import fcntl
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_ATTEMPTS: Final = 3
_PAUSE_S: Final = 5.0
_TIMEOUT_S: Final = 1_200


def cache_folder() -> Path:
    """The folder of everything that tests fetch or build once."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "lakestream"


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Other processes that come here for the folder wait until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_patiently(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    pause_s: float = _PAUSE_S,
) -> subprocess.CompletedProcess[str]:
    """The command's last attempt: the first that succeeded, or the third."""
    for attempt in range(1, _ATTEMPTS + 1):
        done = subprocess.run(
            command,
            env=env,
            cwd=cwd,
            timeout=_TIMEOUT_S,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0 or attempt == _ATTEMPTS:
            return done
        time.sleep(pause_s)
    raise AssertionError("there is at least one attempt")
