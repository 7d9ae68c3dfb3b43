"""`lakestream doctor`: what an installation needs, tried one by one, and what to do about it.

What always holds: every check is tried, whatever the others found; what is written to try a store
is deleted again.
"""

import asyncio
import json
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import click

from lakestream_spark.cli.asking import metadata_of
from lakestream_spark.cli.broker_address import listens
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.cli.output import cell, console, grid
from lakestream_spark.core.errors import LakestreamError, RedTable
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.objectstore.spec import StoreSpec
from lakestream_spark.settings import Settings
from lakestream_spark.settings.storage import catalog_spec, wal_stores
from lakestream_spark.spark.jars import jar_paths, require_java, require_pyspark
from lakestream_spark.spark.jvm import archive_path
from lakestream_spark.table.append import TableState
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.table.in_step import check_not_beyond
from lakestream_spark.table.spec import CatalogSpec

_PROBE_PREFIX: Final = "doctor/"
_SKEW_S: Final = 60.0
_FULL: Final = 0.95
_COMPACTION: Final = "only brokers run without it"


class Finding(NamedTuple):
    """What was found out about one thing; `advice` says what to do unless it is well."""

    what: str
    is_well: bool
    about: str
    advice: str = ""


class Sick(Exception):
    """Something is wrong, and this is to be done about it."""

    def __init__(self, about: str, advice: str) -> None:
        super().__init__(about)
        self.advice = advice


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
    checks: list[tuple[str, Callable[[], Awaitable[str]]]] = [
        ("Java", _in_thread(_java)),
        ("pyspark", _in_thread(_pyspark)),
        ("Spark's jars", _in_thread(_jars)),
        ("compiled kernels", _in_thread(_kernels)),
        ("metadata store", lambda: _metadata(settings)),
    ]
    by_url = {spec.url: spec for spec in wal_stores(settings).values()}
    checks += [(f"WAL in {url}", _store(spec)) for url, spec in by_url.items()]
    spec = catalog_spec(settings)
    checks += [
        (f"catalog {spec.name}", _in_thread(lambda: _catalog(spec))),
        ("warehouse", _in_thread(lambda: _warehouse(spec))),
        ("tables", lambda: _tables(settings, spec)),
        ("broker", _in_thread(lambda: _broker(settings))),
    ]
    return [await _tried(what, check) for what, check in checks]


async def _tried(what: str, check: Callable[[], Awaitable[str]]) -> Finding:
    try:
        return Finding(what, True, await check())
    except Sick as sick:
        return Finding(what, False, str(sick), sick.advice)
    except LakestreamError as error:
        return Finding(what, False, str(error), "mend this setting or what it names")
    except Exception as error:
        return Finding(what, False, f"{type(error).__name__}: {error}", "look at its own log")


def _in_thread(check: Callable[[], str]) -> Callable[[], Awaitable[str]]:
    return lambda: asyncio.to_thread(check)


def _java() -> str:
    return f"{require_java()}"


def _pyspark() -> str:
    home = require_pyspark()
    from importlib.metadata import version

    return f"{version('pyspark')} in {home}"


def _jars() -> str:
    jars = jar_paths()
    archive = archive_path()
    if archive is None or not archive.is_file():
        raise Sick(
            f"{len(jars)} jars, but Spark's classes are not archived: it starts slowly",
            "run `python -m lakestream_spark.spark.jars`",
        )
    return f"{len(jars)} jars and an archive of Spark's classes"


def _kernels() -> str:
    missing = [name for name in ("numba", "deltalake") if find_spec(name) is None]
    if missing:
        raise Sick(
            f"{' and '.join(missing)} missing ({_COMPACTION})",
            "run `pip install 'lakestream-spark[spark]'`, or [jobs] where Spark is already there",
        )
    return "numba and deltalake are there"


async def _metadata(settings: Settings) -> str:
    async with metadata_of(settings, makes=True) as metadata:
        began = time.perf_counter()
        topics = await metadata.topics.list()
        took_ms = 1000 * (time.perf_counter() - began)
    return f"answers in {took_ms:.0f} ms, {len(topics)} topics"


def _store(spec: StoreSpec) -> Callable[[], Awaitable[str]]:
    async def tried() -> str:
        store, key = spec.open(), f"{_PROBE_PREFIX}{uuid4().hex}"
        content = os.urandom(1024)
        began = time.perf_counter()
        await store.put(key, content)
        took_ms = 1000 * (time.perf_counter() - began)
        try:
            if await store.get(key) != content:
                raise Sick("the store gave other bytes than it was given", "do not use it")
            seen = [each async for each in store.list(_PROBE_PREFIX) if each.key == key]
            if not seen:
                raise Sick("an object is not listed after it was written", "do not use it")
        finally:
            await store.delete([key])
        skew_s = abs(time.time() - seen[0].modified_ms / 1000)
        if skew_s > _SKEW_S:
            raise Sick(
                f"its clock and this one's differ by {skew_s:.0f} s",
                "set this clock by NTP: stores refuse requests of another time",
            )
        return f"write, read, list and delete work; a write takes {took_ms:.0f} ms{_room(spec.url)}"

    return tried


def _room(url: str) -> str:
    """How much is left on a disk; raises `Sick` when it is nearly full."""
    if not url.startswith("file://"):
        return ""
    usage = shutil.disk_usage(Path(url.removeprefix("file://")))
    if usage.used > _FULL * usage.total:
        raise Sick(f"the disk is {usage.used / usage.total:.0%} full", "make room on it")
    return f"; {usage.free / 1e9:.0f} GB free"


def _catalog(spec: CatalogSpec) -> str:
    with closing(StreamCatalog.open(spec)) as catalog:
        namespaces = catalog.namespaces()
    return f"{spec.properties.get('type', 'sql')}, {len(namespaces)} namespaces"


async def _tables(settings: Settings, spec: CatalogSpec) -> str:
    """Whether each table and the metadata store are of one time, and the table is lawful."""
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
    io, place = spec.file_io(), f"{spec.warehouse}/{_PROBE_PREFIX}{uuid4().hex}"
    with io.new_output(place).create() as stream:
        stream.write(b"probe")
    try:
        with io.new_input(place).open() as stream:
            if stream.read() != b"probe":
                raise Sick("the warehouse gave other bytes than it was given", "do not use it")
    finally:
        io.delete(place)
    return f"write, read and delete work in {spec.warehouse}"


def _broker(settings: Settings) -> str:
    own = settings.broker
    address = f"{own.advertised_host}:{own.port}"
    if own.port and listens(address):
        return f"something listens on {address}"
    return f"nothing listens on {address}: `lakestream up` starts one"


def _show(found: Sequence[Finding]) -> None:
    rows = grid("", "", "")
    for finding in found:
        mark = cell("well", "green") if finding.is_well else cell("sick", "bold red")
        text = finding.about if finding.is_well else f"{finding.about}: {finding.advice}"
        rows.add_row(mark, cell(finding.what), cell(text))
    console().print(rows)
