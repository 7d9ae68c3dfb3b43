"""`lakestream doctor`: what an installation needs, tried one by one, and what to do about it.

What always holds: every check is tried, whatever the others found; what is written to try a store
is deleted again, and a file or folder that is not there is not made.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import click

from lakestream_spark.cli import engine_checks
from lakestream_spark.cli.ailments import Sick, sick_of
from lakestream_spark.cli.asking import metadata_of
from lakestream_spark.cli.broker_check import brokers_of
from lakestream_spark.cli.clocks import Clocks, postgres_ms
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.cli.output import cell, console, grid
from lakestream_spark.cli.store_checks import (
    not_made_yet,
    room,
    sqlite_file,
    sweep,
    try_store,
    try_warehouse,
    wal_folder,
)
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.errors import RedTable
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.metadata.write_check import check_writable
from lakestream_spark.objectstore.open import open_store
from lakestream_spark.objectstore.spec import StoreSpec
from lakestream_spark.settings import Settings
from lakestream_spark.settings.storage import catalog_spec, wal_stores
from lakestream_spark.spark.catalogs import is_on_s3
from lakestream_spark.table.append import TableState
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.in_step import check_not_beyond
from lakestream_spark.table.places import canonical
from lakestream_spark.table.spec import CatalogSpec


class Finding(NamedTuple):
    """What was found out about one thing; `advice` says what to do unless it is well."""

    what: str
    is_well: bool
    about: str
    advice: str = ""


@click.command()
@settings_options
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.pass_context
def doctor(context: click.Context, /, loaded: Loaded, as_json: bool) -> None:
    """Try what an installation needs, and say what is wrong and what to do about it.

    Ends with code 1 when something is wrong.
    """
    found = asyncio.run(examine(loaded.settings))
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in found]))
    else:
        _show(found)
    context.exit(0 if all(finding.is_well for finding in found) else 1)


async def examine(settings: Settings) -> list[Finding]:
    """All checks, in the order in which people need what they check."""
    spec, clocks = catalog_spec(settings), Clocks()
    checks: list[tuple[str, Callable[[], Awaitable[str]]]] = [
        ("Java", _in_thread(engine_checks.java)),
        ("pyspark", _in_thread(engine_checks.pyspark)),
        ("Spark's jars", _in_thread(engine_checks.jars)),
    ]
    if is_on_s3(spec):
        checks.append(("Spark's jars for S3", _in_thread(engine_checks.s3_jars)))
    checks += [
        ("compiled kernels", _in_thread(engine_checks.kernels)),
        ("metadata store", lambda: _metadata(settings, clocks)),
    ]
    by_url = {each.url: each for each in wal_stores(settings).values()}
    checks += [(f"WAL in {url}", _store(each, clocks)) for url, each in by_url.items()]
    checks += [
        (f"catalog {spec.name}", _in_thread(lambda: _catalog(spec))),
        ("warehouse", _in_thread(lambda: _warehouse(spec))),
        ("tables", lambda: _tables(settings, spec)),
        # After those that ask others for the time.
        ("clock", _in_thread(clocks.compared)),
        ("broker", lambda: brokers_of(settings)),
    ]
    return [await _tried(what, check) for what, check in checks]


async def _tried(what: str, check: Callable[[], Awaitable[str]]) -> Finding:
    try:
        return Finding(what, True, await check())
    except Exception as error:
        found = sick_of(error)
        return Finding(what, False, str(found), found.advice)


def _in_thread(check: Callable[[], str]) -> Callable[[], Awaitable[str]]:
    return lambda: asyncio.to_thread(check)


async def _metadata(settings: Settings, clocks: Clocks) -> str:
    if missing := not_made_yet(sqlite_file(settings.metadata.url)):
        return missing
    async with metadata_of(settings) as metadata:
        began = time.perf_counter()
        topics = await metadata.topics.list()
        took_ms = 1000 * (time.perf_counter() - began)
        await check_writable(metadata.database)
        theirs_ms = await postgres_ms(metadata)
        if theirs_ms is not None:
            clocks.seen("PostgreSQL", theirs_ms, SystemClock().wall_ms())
    return f"answers in {took_ms:.0f} ms and may be written, {len(topics)} topics"


def _store(spec: StoreSpec, clocks: Clocks) -> Callable[[], Awaitable[str]]:
    async def trying() -> str:
        folder = wal_folder(spec.url)
        if missing := not_made_yet(folder):
            return missing
        try:
            # Without retries: a person waits, and is told what a broker would wait for.
            tried = await try_store(open_store(spec.url, spec.options), SystemClock())
        finally:
            sweep(folder)
        clocks.seen(spec.url, tried.theirs_ms, tried.ours_ms)
        return f"{tried.about}{'' if folder is None else room(folder)}"

    return trying


def _catalog(spec: CatalogSpec) -> str:
    if missing := not_made_yet(_catalog_file(spec)):
        return missing
    with closing(StreamCatalog.open(spec)) as catalog:
        namespaces = catalog.namespaces()
    return f"{spec.properties.get('type', 'sql')}, {len(namespaces)} namespaces"


def _catalog_file(spec: CatalogSpec) -> Path | None:
    return sqlite_file(spec.properties.get("uri", ""))


async def _tables(settings: Settings, spec: CatalogSpec) -> str:
    """Whether each table and the metadata store are of one time, and the table is lawful."""
    for file in (sqlite_file(settings.metadata.url), _catalog_file(spec)):
        if not_made_yet(file):
            return "none yet"
    red: dict[str, RedTable] = {}
    async with metadata_of(settings) as metadata:
        topics = await metadata.topics.list()
        with closing(StreamCatalog.open(spec)) as catalog:
            for topic in topics:
                try:
                    await _table(metadata, catalog, topic)
                except RedTable as error:
                    red[topic.name] = error
    if red:
        name, first = next(iter(red.items()))
        raise Sick(
            f"{len(red)} of {len(topics)} are red; {name}: {first.message}",
            str(first.facts["remedy"]),
        )
    return f"those of {len(topics)} topics fit what the metadata store knows"


async def _table(metadata: Metadata, catalog: StreamCatalog, topic: Topic) -> None:
    layout = catalog.layout(topic.id, topic.name, topic.config)
    before = await metadata.tables.ends(topic.id)
    table = await asyncio.to_thread(catalog.check, layout, before)
    if table is not None:
        # Asked again: what is in the table by now was given out by now.
        after = await metadata.tables.ends(topic.id)
        ends = TableState.of(table).ends
        check_not_beyond(ends, after, table.metadata.current_snapshot_id)


def _warehouse(spec: CatalogSpec) -> str:
    place = canonical(spec.warehouse)
    folder = Path(place) if place.startswith("/") else None
    return not_made_yet(folder) or try_warehouse(spec)


def _show(found: Sequence[Finding]) -> None:
    rows = grid("", "", "")
    for finding in found:
        mark = cell("well", "green") if finding.is_well else cell("sick", "bold red")
        text = finding.about if finding.is_well else f"{finding.about}: {finding.advice}"
        rows.add_row(mark, cell(finding.what), cell(text))
    console().print(rows)
