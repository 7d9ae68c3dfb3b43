"""`lakestream produce TOPIC`: a record for each line of the standard input."""

import sys
from collections.abc import Sequence

import click

from lakestream_spark.cli.broker_address import bootstrap, broker_option
from lakestream_spark.cli.escapes import unescaped
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.cli.record_lines import INT32, from_json, from_text, header
from lakestream_spark.cli.sending import Sender, send


def _delimiter(
    context: click.Context,  # noqa: ARG001
    parameter: click.Parameter,  # noqa: ARG001
    text: str | None,
) -> bytes | None:
    if text == "":
        raise click.BadParameter("an empty text parts nothing: leave it out to send no keys")
    return None if text is None else unescaped(text)


@click.command()
@click.argument("topic")
@settings_options
@broker_option
@click.option("-k", "--key", help="The key of every record.")
@click.option(
    "-K",
    "--key-delimiter",
    metavar="TEXT",
    callback=_delimiter,
    help=r"What parts key and value of a line, such as : or \t or \x1f.",
)
@click.option("-H", "--header", "headers", multiple=True, metavar="KEY=VALUE", help="Repeatable.")
@click.option(
    "-p", "--partition", type=click.IntRange(0, INT32), help="By default the key decides."
)
@click.option("-z", "--compression", default="none", show_default=True, help="A codec of Kafka's.")
@click.option("--json", "as_json", is_flag=True, help="A line is an object: key, value, headers, …")
def produce(
    loaded: Loaded,
    topic: str,
    broker: str | None,
    key: str | None,
    key_delimiter: bytes | None,
    headers: Sequence[str],
    partition: int | None,
    compression: str,
    as_json: bool,
) -> None:
    """Send a record for each line of the standard input, and wait until all are acknowledged.

    With --json a line is {"value": …, "key": …, "headers": {…}, "partition": …, "timestamp": …},
    all of which may be left out; {"base64": …} stands for bytes, and other values that are not
    texts are sent as JSON. What `lakestream consume --json` prints is taken as it is. A line that
    is no record ends the command; it says how many before it were acknowledged.
    """
    if as_json and (key is not None or key_delimiter or headers):
        raise click.UsageError("with --json the lines say keys and headers themselves")
    common = [header(text) for text in headers]
    lines = (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
    records = from_json(lines) if as_json else from_text(lines, key, key_delimiter, common)
    address = bootstrap(loaded.settings, broker)
    count = send(Sender(address, topic, compression), records, partition)
    click.echo(f"{count} records acknowledged", err=True)
