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
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.core.logs import event
from lakestream_spark.kafka.arrow.kept import folder_for, name_of, one_at_a_time
from lakestream_spark.kafka.arrow.layout import Bytes, Fields, HashedRows, Hashes, Space, Table

NUMBA_HINT: Final = "records are decoded with numba: `pip install 'lakestream-spark[jobs]'`"
_PACKAGE: Final = "lakestream_spark.kafka.arrow"
_ABOUT_SECONDS: Final = 10
_LOG: Final = logging.getLogger(__name__)


class DecodeKernels(NamedTuple):
    """The entries of `decode_kernels`."""

    walk: Callable[[Bytes, int, Table], int]
    decode: Callable[[Bytes, Table, int, Space, Table], int]


HashKernel: TypeAlias = Callable[[HashedRows, Hashes], int]
"""The entry of `hash_kernels`."""
K = TypeVar("K")
_lock: Final = Lock()
_loaded: dict[str, Any] = {}


def decode_kernels() -> DecodeKernels:
    """The kernels, compiled or loaded by the first call."""
    return _once("decode", _compile_decode)


def hash_kernel() -> HashKernel:
    """The kernel, compiled or loaded by the first call."""
    return _once("hash", _compile_hash)


def _once(name: str, compile_them: Callable[[Any, Path | None], K]) -> K:
    with _lock:
        if name not in _loaded:
            _loaded[name] = _load(compile_them)
        found: K = _loaded[name]
        return found


def _load(compile_them: Callable[[Any, Path | None], K]) -> K:
    try:
        numba = import_module("numba")
        llvmlite = import_module("llvmlite")
    except ImportError as error:
        raise Misconfigured(NUMBA_HINT, error=error) from error
    name = name_of(_PACKAGE, [numba.__version__, llvmlite.__version__])
    folder = folder_for(name, preferred=numba.config.CACHE_DIR)
    if folder is None:
        return compile_them(numba, None)
    try:
        with one_at_a_time(folder):
            return compile_them(numba, folder)
    except Exception as error:
        event(
            _LOG, logging.WARNING, "the kept record kernels are of no use", folder=folder, why=error
        )
        return compile_them(numba, None)


def _compile_decode(numba: Any, folder: Path | None) -> DecodeKernels:
    module = import_module(f"{_PACKAGE}.decode_kernels")
    number, numbers, table = numba.int64, numba.int64[::1], numba.int64[:, ::1]
    data, marks = numba.uint8[::1], numba.uint8[:, ::1]
    source = numba.types.Array(numba.uint8, 1, "C", readonly=True)
    space = numba.types.NamedTuple(
        [numbers, table, marks, data, data, table, data, data, data], Space
    )
    with announced(folder), _kept_in(numba.config, folder):
        return DecodeKernels(
            _kernel(numba, folder, number(source, number, table), module.walk),
            _kernel(numba, folder, number(source, table, number, space, table), module.decode),
        )


def _compile_hash(numba: Any, folder: Path | None) -> HashKernel:
    module = import_module(f"{_PACKAGE}.hash_kernels")
    array = numba.types.Array
    numbers = array(numba.int64, 1, "C", readonly=True)
    data = array(numba.uint8, 1, "C", readonly=True)
    kinds = array(numba.int32, 1, "C", readonly=True)
    fields = numba.types.NamedTuple([data, numbers, data], Fields)
    rows = numba.types.NamedTuple(
        [numbers, numbers, data, kinds, fields, fields, fields, numbers, fields, fields], HashedRows
    )
    with announced(folder), _kept_in(numba.config, folder):
        found: HashKernel = _kernel(
            numba, folder, numba.int64(rows, numba.uint64[::1]), module.hash_rows
        )
    return found


def _kernel(numba: Any, folder: Path | None, signature: Any, function: Any) -> Any:
    return numba.njit(signature, nogil=True, cache=folder is not None)(function)


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
