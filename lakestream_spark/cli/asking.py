"""What commands ask of the metadata store and the catalog, opened for the question and closed
behind it; and how they take a place in a stream."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
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

_PLACE: Final = re.compile(r"(\d+):(\d+)")

T = TypeVar("T")


@asynccontextmanager
async def metadata_of(settings: Settings) -> AsyncIterator[Metadata]:
    """The store that the settings name, open for the block."""
    metadata = await open_metadata(settings.metadata.url, clock=SystemClock())
    try:
        yield metadata
    finally:
        await metadata.close()


def ask(settings: Settings, question: Callable[[Metadata], Awaitable[T]]) -> T:
    """The answer of the store that the settings name."""

    async def asked() -> T:
        async with metadata_of(settings) as metadata:
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
    """Milliseconds as they are, or of a time in ISO 8601, which is UTC unless it names a zone."""
    if text.isdecimal():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is neither milliseconds nor a time like 2026-01-31T12:00:00 (UTC)",
            param_hint=flag,
        ) from None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
