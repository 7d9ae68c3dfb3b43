"""What commands ask of the metadata store and the catalog, opened for the question and closed
behind it; and how they take a place in a stream."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import NotFound
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.settings import Settings
from lakestream_spark.settings.storage import catalog_spec

if TYPE_CHECKING:
    from pyiceberg.table import Table

_PLACE: Final = re.compile(r"([0-9]{1,10}):([0-9]{1,19})")
_MS: Final = re.compile(r"[0-9]+")
_LAST_MS: Final = 253_402_300_799_999
"""Of the year 9999: nothing that reads tables knows later ones."""
_SQLITE: Final = "sqlite:///"

T = TypeVar("T")


def require_data(settings: Settings) -> None:
    """Raises `NotFound` where nothing was ever started: to look must not make anything."""
    url = settings.metadata.url
    path = url.removeprefix(_SQLITE)
    if url.startswith(_SQLITE) and path and not Path(path).exists():
        start = f"`lakestream up --data {settings.data}` starts a platform there"
        raise NotFound(f"there is nothing in {settings.data} yet: {start}")


@asynccontextmanager
async def metadata_of(settings: Settings, *, makes: bool = False) -> AsyncIterator[Metadata]:
    """The store that the settings name, open for the block; `makes` one that is not there."""
    if not makes:
        require_data(settings)
    metadata = await open_metadata(settings.metadata.url, clock=SystemClock())
    try:
        yield metadata
    finally:
        await metadata.close()


def ask(
    settings: Settings, question: Callable[[Metadata], Awaitable[T]], *, makes: bool = False
) -> T:
    """The answer of the store that the settings name; `makes` one that is not there."""

    async def asked() -> T:
        async with metadata_of(settings, makes=makes) as metadata:
            return await question(metadata)

    return asyncio.run(asked())


def table_of(settings: Settings, name: str) -> "tuple[Topic, Table]":
    """The topic of that name and its table; raises `NotFound` while it has none."""
    # Here and not above: pyiceberg takes a second to load, and most commands need no table.
    from lakestream_spark.table.iceberg import StreamCatalog

    topic = ask(settings, lambda metadata: metadata.topics.get(name))
    with closing(StreamCatalog.open(catalog_spec(settings))) as catalog:
        table = catalog.load(catalog.layout(topic.id, topic.name, topic.config))
    if table is None:
        hint = f"`lakestream flush {name}` makes it"
        raise NotFound(f"the topic has no table yet: {hint}", topic=name)
    return topic, table


def partition_offset(text: str, flag: str) -> tuple[int, int]:
    """The partition and the offset that P:N names."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not PARTITION:OFFSET", param_hint=flag)
    return int(found[1]), int(found[2])


def time_ms(text: str, flag: str) -> int:
    """Milliseconds as they are, or of a time in ISO 8601, which is UTC unless it names a zone.

    Never below 0: to Kafka those are no times.
    """
    if _MS.fullmatch(text):
        if len(text) > len(str(_LAST_MS)) or int(text) > _LAST_MS:
            raise click.BadParameter(f"{text} ms is after the year 9999", param_hint=flag)
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is neither milliseconds nor a time like 2026-01-31T12:00:00 (UTC)",
            param_hint=flag,
        ) from None
    found = round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    return min(max(found, 0), _LAST_MS)
