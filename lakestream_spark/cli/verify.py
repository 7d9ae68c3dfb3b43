"""`lakestream verify TOPIC`: compare stream and table, and certify that they are one."""

import asyncio
import json
from collections.abc import Callable
from contextlib import ExitStack, closing
from random import Random
from typing import TYPE_CHECKING

import click

from lakestream_spark.cli.asking import metadata_of
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.logs import configure
from lakestream_spark.settings import Settings
from lakestream_spark.settings.specs import catalog_spec, wal_stores
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.verify.certificate import Certificate
from lakestream_spark.verify.check import SAMPLE, CheckAll, verify
from lakestream_spark.verify.pinned import Asked, Site

if TYPE_CHECKING:
    from lakestream_spark.spark.compact import Session


def verify_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that the command and its spark-submit entry share."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the certificate as JSON."),
        click.option(
            "--to", "after", type=click.IntRange(min=0), help="Up to this offset, without it."
        ),
        click.option(
            "--from", "first", type=click.IntRange(min=0), default=0, help="From this offset on."
        ),
        click.option("--partition", type=click.IntRange(min=0), help="One partition only."),
        settings_options,
        click.argument("topic"),
    ):
        command = option(command)
    return command


@click.command(name="verify")
@verify_options
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=SAMPLE,
    show_default=True,
    help="So many cells of 65,536 offsets and so many WAL extents are read.",
)
@click.option("--full", is_flag=True, help="Compare every row, in a local Spark.")
def verify_command(
    loaded: Loaded,
    topic: str,
    partition: int | None,
    first: int,
    after: int | None,
    sample: int,
    full: bool,
    as_json: bool,
) -> None:
    """Compare stream and table over a range of offsets, and certify that they are one.

    The range is widened to whole cells of 65,536 offsets. Counts, gaps, repeats, files, the Delta
    log, the WAL's index and its segments are compared exactly; of rows and bytes a sample is read,
    or all of them with --full. Ends with code 5 at the first difference, and says where it is.
    """
    log = loaded.settings.log
    configure(level=log.level, form=log.format, context={"job": "verify"})
    asked = Asked(partition=partition, first=first, next=after)
    tell(run_verify(loaded.settings, topic, asked, sample=sample, full=full), as_json=as_json)


def run_verify(
    settings: Settings,
    topic: str,
    asked: Asked,
    *,
    sample: int = SAMPLE,
    full: bool = False,
    session: "Session | None" = None,
) -> Certificate:
    """One verification: the full one in the session given, or in a Spark of its own."""
    if not full and session is None:
        return asyncio.run(_verify(settings, topic, asked, sample, None))
    # Here and not above: only the full mode needs Spark.
    from lakestream_spark.spark.session import session_when_asked
    from lakestream_spark.spark.verify import check_with

    with ExitStack() as stack:
        spec = catalog_spec(settings)
        own = session or stack.enter_context(
            session_when_asked(spec, master=settings.compact.master)
        )
        check_all = check_with(own, spec.name)
        return asyncio.run(_verify(settings, topic, asked, sample, check_all))


async def _verify(
    settings: Settings, topic: str, asked: Asked, sample: int, check_all: CheckAll | None
) -> Certificate:
    spec = catalog_spec(settings)
    async with metadata_of(settings) as metadata:
        with closing(StreamCatalog.open(spec)) as catalog:
            site = Site(
                metadata=metadata,
                catalog=catalog,
                spec=spec,
                stores={name: store.open() for name, store in wal_stores(settings).items()},
                clock=SystemClock(),
                random=Random(),
            )
            return await verify(site, topic, asked, sample=sample, check_all=check_all)


def tell(certificate: Certificate, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(certificate.to_json()))
        return
    for line in certificate.lines():
        click.echo(line)
