"""The kernels as machine code: compiled once per machine, loaded in every later process.

numba takes a second to import and 190 MB on disk, so it is imported when the first record is
decoded and nowhere else. Signatures are given, so that no call compiles anything. A cold start says
what it does; kernels that cannot be kept, or were kept damaged, cost time and nothing else.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.core.logs import event
from lakestream_spark.kafka.arrow.kept import folder_for, name_of, one_at_a_time
from lakestream_spark.kafka.arrow.layout import Bytes, Space, Table

NUMBA_HINT: Final = "records are decoded with numba: `pip install 'lakestream-spark[jobs]'`"
_PACKAGE: Final = "lakestream_spark.kafka.arrow"
_ABOUT_SECONDS: Final = 10
_LOG: Final = logging.getLogger(__name__)


class DecodeKernels(NamedTuple):
    """The entries of `decode_kernels`."""

    walk: Callable[[Bytes, int, Table], int]
    decode: Callable[[Bytes, Table, int, Space, Table], int]


_lock: Final = Lock()
_loaded: dict[str, DecodeKernels] = {}


def decode_kernels() -> DecodeKernels:
    """The kernels, compiled or loaded by the first call."""
    with _lock:
        if "decode" not in _loaded:
            _loaded["decode"] = _load()
        return _loaded["decode"]


def _load() -> DecodeKernels:
    try:
        numba = import_module("numba")
        llvmlite = import_module("llvmlite")
    except ImportError as error:
        raise Misconfigured(NUMBA_HINT, error=error) from error
    name = name_of(_PACKAGE, [numba.__version__, llvmlite.__version__])
    folder = folder_for(name, preferred=numba.config.CACHE_DIR)
    if folder is None:
        return _compile(numba, None)
    try:
        with one_at_a_time(folder):
            return _compile(numba, folder)
    except Exception as error:
        event(
            _LOG, logging.WARNING, "the kept record kernels are of no use", folder=folder, why=error
        )
        return _compile(numba, None)


def _compile(numba: Any, folder: Path | None) -> DecodeKernels:
    module = import_module(f"{_PACKAGE}.decode_kernels")
    number, numbers, table = numba.int64, numba.int64[::1], numba.int64[:, ::1]
    data, marks = numba.uint8[::1], numba.uint8[:, ::1]
    source = numba.types.Array(numba.uint8, 1, "C", readonly=True)
    space = numba.types.NamedTuple(
        [numbers, table, marks, data, data, table, data, data, data], Space
    )

    def kernel(signature: Any, function: Any) -> Any:
        return numba.njit(signature, nogil=True, cache=folder is not None)(function)

    with announced(folder), _kept_in(numba.config, folder):
        return DecodeKernels(
            kernel(number(source, number, table), module.walk),
            kernel(number(source, table, number, space, table), module.decode),
        )


@contextmanager
def _kept_in(config: Any, folder: Path | None) -> Iterator[None]:
    """numba has one folder for the whole process; others keep theirs."""
    before = config.CACHE_DIR
    config.CACHE_DIR = before if folder is None else str(folder)
    try:
        yield
    finally:
        config.CACHE_DIR = before


@contextmanager
def announced(folder: Path | None) -> Iterator[None]:
    """Says so once if anything is compiled, and how long it took."""
    started: list[float] = []
    events = import_module("numba.core.event")

    class Announcer(events.Listener):  # type: ignore[misc, name-defined]
        def on_start(self, _: Any) -> None:
            if not started:
                kept = "for this process only" if folder is None else "once"
                sentence = f"compiling the record kernels, {kept}, about {_ABOUT_SECONDS} s"
                event(_LOG, logging.INFO, sentence, folder=folder)
                started.append(time.monotonic())

        def on_end(self, _: Any) -> None:
            """Several functions are compiled; the end is when all of them are."""

    with events.install_listener("numba:compile", Announcer()):
        yield
    if started:
        took = round(time.monotonic() - started[0], 1)
        event(_LOG, logging.INFO, "the record kernels are compiled", seconds=took)
