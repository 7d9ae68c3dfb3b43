"""Stores as `lakestream doctor` tries them: written, read, listed and deleted from.

What always holds: what is written to try a store is deleted again, and a folder that is not there
is not made: it is told that a first start makes it, or why that would fail.
"""

import os
import shutil
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from urllib.parse import unquote
from uuid import uuid4

from lakestream_spark.cli.ailments import MAKE_ROOM, Sick, sick_of
from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.objectstore.store import ObjectStore
from lakestream_spark.table.spec import CatalogSpec

T = TypeVar("T")

_PROBE: Final = "doctor"
_FULL: Final = 0.95
_FILE: Final = "file://"
_SQLITE: Final = "sqlite:///"
_DISTRUST: Final = "do not use it: records would be lost"


def sqlite_file(url: str) -> Path | None:
    """The file of a database that is one."""
    path = url.removeprefix(_SQLITE)
    return Path(path) if url.startswith(_SQLITE) and path else None


def wal_folder(url: str) -> Path | None:
    """The folder of a store that is one."""
    return Path(unquote(url.removeprefix(_FILE))) if url.startswith(_FILE) else None


def not_made_yet(place: Path | None) -> str | None:
    """What to say of a place of this machine that is still to be made; None when it is there.

    Raises `Sick` when it could not be made.
    """
    if place is None or place.exists():
        return None
    above = next(each for each in place.parents if each.exists())
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        raise Sick(
            f"{place} cannot be made: {above} is no folder that this user may write to",
            "let this user write there, or name another place with --data",
        )
    return f"{place} is not there yet: `lakestream up` makes it{room(above)}"


def room(folder: Path) -> str:
    """How much is left on its disk; raises `Sick` when that is nearly full."""
    usage = shutil.disk_usage(folder)
    if usage.used > _FULL * usage.total:
        raise Sick(f"the disk of {folder} is {usage.used / usage.total:.0%} full", MAKE_ROOM)
    return f"; {usage.free / 1e9:.0f} GB free"


class Tried(NamedTuple):
    """What was found out about a store, and what time it was there and here when it was written."""

    about: str
    theirs_ms: int
    ours_ms: int


async def try_store(store: ObjectStore, clock: Clock) -> Tried:
    """Raises `Sick` for what does not work."""
    key, content = f"{_PROBE}/{uuid4().hex}", os.urandom(1024)
    began = clock.monotonic()
    await _step("writing", store.put(key, content))
    took_ms, ours_ms = 1000 * (clock.monotonic() - began), clock.wall_ms()
    try:
        theirs_ms = await _found(store, key, content)
    except BaseException:
        with suppress(LakestreamError):
            await store.delete([key])
        raise
    await _step("deleting", store.delete([key]))
    about = f"write, read, list and delete work; a write takes {took_ms:.0f} ms"
    return Tried(about, theirs_ms, ours_ms)


async def _found(store: ObjectStore, key: str, content: bytes) -> int:
    """When the store says that it was written."""
    if await _step("reading", store.get(key)) != content:
        raise Sick("the store gave other bytes than it was given", _DISTRUST)
    listed = await _step("listing", _modified_ms(store, key))
    if listed is None:
        raise Sick("an object is not listed after it was written", _DISTRUST)
    return listed


async def _modified_ms(store: ObjectStore, key: str) -> int | None:
    found = [each async for each in store.list(f"{_PROBE}/") if each.key == key]
    return found[0].modified_ms if found else None


async def _step(doing: str, step: Awaitable[T]) -> T:
    try:
        return await step
    except LakestreamError as error:
        raise sick_of(error, doing) from error


def try_warehouse(spec: CatalogSpec) -> str:
    """The same for the tables' files, as pyiceberg reaches them."""
    # Not in a folder of its own: pyarrow keeps a marker in the bucket for one that it empties.
    io, place = spec.file_io(), f"{spec.warehouse}/{_PROBE}-{uuid4().hex}"
    # The name is new; a look whether it is there would hide why a store refuses.
    with io.new_output(place).create(overwrite=True) as stream:
        stream.write(b"probe")
    try:
        with io.new_input(place).open() as stream:
            if stream.read() != b"probe":
                raise Sick("the warehouse gave other bytes than it was given", _DISTRUST)
    finally:
        io.delete(place)
    return f"write, read and delete work in {spec.warehouse}"


def sweep(folder: Path | None) -> None:
    """Take away the folder that held what was tried."""
    if folder is not None:
        with suppress(OSError):
            (folder / _PROBE).rmdir()
