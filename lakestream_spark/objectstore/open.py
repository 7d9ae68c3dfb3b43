"""A store from its URL and options: the only place that knows the schemes."""

from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.objectstore.cloud_open import open_azure, open_gcs, open_s3
from lakestream_spark.objectstore.local import LocalStore
from lakestream_spark.objectstore.memory import MemoryStore
from lakestream_spark.objectstore.options import StoreOptions
from lakestream_spark.objectstore.store import ObjectStore

_NO_OPTIONS = StoreOptions()


def open_store(url: str, options: StoreOptions = _NO_OPTIONS) -> ObjectStore:
    """The store at `url`; nothing is sent or written yet, and nothing is retried (`Retrying`)."""
    parts = urlsplit(url)
    opener = _OPENERS.get(parts.scheme)
    if opener is None:
        valid = ", ".join(f"{scheme}://" for scheme in _OPENERS)
        raise Misconfigured(f"{url!r} is not the URL of a store; it must begin with one of {valid}")
    if parts.query or parts.fragment or parts.username or parts.password:
        raise Misconfigured(
            f"the URL of a {parts.scheme}:// store is a place only; say the rest in its options"
        )
    return opener(parts, options)


def _open_file(url: SplitResult, options: StoreOptions) -> ObjectStore:
    _refuse_all(options, url.scheme)
    if url.netloc not in ("", "localhost") or not url.path.startswith("/"):
        raise Misconfigured(
            f"{url.geturl()!r} names no folder of this host; write file:///absolute/path"
        )
    return LocalStore(Path(unquote(url.path)))


def _open_memory(url: SplitResult, options: StoreOptions) -> ObjectStore:
    _refuse_all(options, url.scheme)
    return MemoryStore(f"memory://{url.netloc}{url.path}")


def _refuse_all(options: StoreOptions, scheme: str) -> None:
    given = sorted(options.model_dump(exclude_defaults=True))
    if given:
        raise Misconfigured(f"{', '.join(given)} mean nothing for a {scheme}:// store")


_OPENERS: dict[str, Callable[[SplitResult, StoreOptions], ObjectStore]] = {
    "file": _open_file,
    "s3": open_s3,
    "gs": open_gcs,
    "az": open_azure,
    "memory": _open_memory,
}
SCHEMES: Final = tuple(_OPENERS)
