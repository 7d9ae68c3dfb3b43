"""Where compiled kernels are kept from one process to the next.

A folder is named by everything that the machine code depends on apart from the processor, which
numba looks at itself: changed sources never meet old code. What is kept is executed, so a folder
that others can write to is not used.
"""

import os
import platform
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

if sys.platform != "win32":
    import fcntl


def name_of(package: str, versions: Iterable[str]) -> str:
    """A name for the sources of a package together with what compiles them."""
    parts = [platform.python_implementation(), platform.python_version(), *versions]
    for source in sorted(files(package).iterdir(), key=lambda each: each.name):
        if source.name.endswith(".py"):
            parts += [source.name, source.read_text(encoding="utf-8")]
    return sha256("\0".join(parts).encode()).hexdigest()[:16]


def folder_for(name: str, *, preferred: str = "") -> Path | None:
    """A folder of that name that only this user can write to; None when there is nowhere one."""
    for base in _bases(preferred):
        folder = base / "lakestream" / "kernels" / name
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_ours(folder):
                tempfile.TemporaryFile(dir=folder).close()
                return folder
    return None


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Other processes that come meanwhile wait, and then find what this one has made."""
    if sys.platform == "win32":
        yield
        return
    with (folder / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _bases(preferred: str) -> Iterator[Path]:
    if preferred:
        yield Path(preferred)
    if os.environ.get("XDG_CACHE_HOME"):
        yield Path(os.environ["XDG_CACHE_HOME"])
    with suppress(RuntimeError):
        yield Path.home() / ".cache"
    if sys.platform != "win32":
        yield Path(tempfile.gettempdir()) / f"lakestream-{os.getuid()}"


def _is_ours(folder: Path) -> bool:
    if sys.platform == "win32":
        return True
    found = folder.lstat()
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not shared
