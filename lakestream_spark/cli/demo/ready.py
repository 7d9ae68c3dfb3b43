"""What the demo needs before it starts; what is missing is one sentence, and nothing is touched."""

import shutil
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from lakestream_spark.core.errors import Misconfigured, Unavailable
from lakestream_spark.ingress.listening import listen
from lakestream_spark.settings import Settings
from lakestream_spark.spark.jars import jar_paths, require_java, require_pyspark

_MB: Final = 1_000_000
NEEDED_MB: Final = 256
_FULL_MB: Final = 8
_EXTRAS: Final = {"duckdb": "sql", "numba": "sql", "deltalake": "spark"}


def check_ready(settings: Settings) -> None:
    """Raises `Misconfigured` with what to do about it."""
    _check_ports(settings)
    free = free_mb(settings)
    if free is not None and free < NEEDED_MB:
        raise Misconfigured(
            f"the disk of {settings.data} has {free:.0f} MB left and the demo needs {NEEDED_MB}: "
            "make room, or choose another folder by --data or, with make, DATA"
        )
    for module, extra in _EXTRAS.items():
        if find_spec(module) is None:
            install = f"pip install 'lakestream-spark[{extra}]'"
            raise Misconfigured(f"`lakestream demo` needs {module}: {install}")
    require_pyspark()
    require_java()
    jar_paths()


def check_room(settings: Settings) -> None:
    """Raises `Unavailable` when the disk has become full."""
    free = free_mb(settings)
    if free is not None and free < _FULL_MB:
        raise Unavailable(
            f"the disk of {settings.data} is full, so the broker takes no records: make room and "
            "start again, what was acknowledged is there"
        )


def data_folder(settings: Settings) -> Path | None:
    """The folder with everything, or None when it is in a bucket."""
    scheme, _, path = settings.store.url.partition("://")
    return Path(unquote(path)) if scheme == "file" else None


def free_mb(settings: Settings) -> float | None:
    """What is left on the disk of the data; None when that is no disk of this machine."""
    folder = data_folder(settings)
    if folder is None:
        return None
    there = next(each for each in (folder, *folder.parents) if each.exists())
    return shutil.disk_usage(there).free / _MB


def _check_ports(settings: Settings) -> None:
    own = settings.broker
    for host, port, choice in (
        (own.host, own.port, "--port or, with make, PORT"),
        (own.admin_host, own.admin_port, "--admin-port or, with make, ADMIN_PORT"),
    ):
        with closing(listen(host, port, setting=choice)):
            pass
