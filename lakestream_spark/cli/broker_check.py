"""Whether brokers run, as `lakestream doctor` tells; that none does is no ailment."""

import asyncio
from contextlib import suppress

from lakestream_spark.cli.asking import metadata_of
from lakestream_spark.cli.broker_address import listens
from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.settings import Settings


async def brokers_of(settings: Settings) -> str:
    """Those that the metadata store knows, or who else listens on the port of the settings."""
    known = await _registered(settings)
    answering = [each for each in known if await asyncio.to_thread(listens, each)]
    if answering:
        silent = [each for each in known if each not in answering]
        rest = f"; nobody answers at {', '.join(silent)}" if silent else ""
        return f"listening on {', '.join(answering)}{rest}"
    if known:
        return f"nobody answers at {', '.join(known)}, where one was: `lakestream up` starts one"
    own = f"{settings.broker.advertised_host}:{settings.broker.port}"
    if settings.broker.port and await asyncio.to_thread(listens, own):
        return f"something listens on {own}, but no broker of this metadata store"
    return "none runs: `lakestream up` starts one"


async def _registered(settings: Settings) -> list[str]:
    # A store that is not there or does not answer has a line of its own.
    with suppress(LakestreamError):
        async with metadata_of(settings) as metadata:
            nodes = [each.registration.node for each in await metadata.brokers.list()]
            return [f"{node.host}:{node.port}" for node in nodes]
    return []
