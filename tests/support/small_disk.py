"""Disks of a few megabytes that can be filled for real."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest


@pytest.fixture
def small_disk() -> Iterator[Callable[[int], Path]]:
    """Mounts file systems of a few megabytes."""
    mounted: list[Path] = []

    def mount(megabytes: int) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="lakestream-disk-"))
        options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
        done = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            folder.rmdir()
            pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


def fill(disk: Path) -> Path:
    """A file that takes all the space there is."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(os.urandom(4096)):
            pass
    return ballast
