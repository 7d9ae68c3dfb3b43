"""`lakestream sql QUERY`: a query over topics, their tables and their tails as one."""

import sys
from typing import Final

import click

from lakestream_spark.cli.asking import require_data
from lakestream_spark.cli.options import Loaded, settings_options
from lakestream_spark.cli.sql_output import Form, write
from lakestream_spark.core.errors import Rejected
from lakestream_spark.settings.installation import installation_of
from lakestream_spark.sql.lake import answer

_SHOWN_ROWS: Final = 1000


@click.command()
@click.argument("query")
@settings_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with a line of names.")
@click.option(
    "--limit",
    type=click.IntRange(0),
    help=f"Print so many rows, 0 for all; by default {_SHOWN_ROWS}, or all as JSON or CSV.",
)
def sql(loaded: Loaded, query: str, as_json: bool, as_csv: bool, limit: int | None) -> None:
    """Ask a query of DuckDB's SQL over topics: their tables and what is not in them yet.

    The answer has every record that is acknowledged by now, each once. A topic is a table by its
    name, in double quotes unless it is plain ("order-events"), or by the name that its table has
    in the catalog (streams.orders). Its columns are __partition, __offset, __timestamp, __key,
    __value, __headers and those that were added. Times are UTC.

    Keys and values are bytes; decode() makes texts of them, and ->> takes a field out of JSON:

    \b
      lakestream sql "
        SELECT decode(__value)->>'$.customer' AS customer,
               sum((decode(__value)->>'$.amount')::DOUBLE) AS amount
        FROM orders
        WHERE __timestamp > now() - INTERVAL 1 HOUR
        GROUP BY ALL ORDER BY amount DESC LIMIT 10"

    `try(decode(__value))` is null where bytes are no text. DESCRIBE, SUMMARIZE and SHOW TABLES work
    as well; nothing that changes anything does.
    """
    if as_json and as_csv:
        raise click.UsageError("give --json or --csv, not both")
    if not query.strip(" \t\r\n;"):
        raise Rejected("the query is empty: give one, such as 'SELECT count(*) FROM orders'")
    form = Form.JSON if as_json else Form.CSV if as_csv else Form.GRID
    most = limit if limit is not None else _SHOWN_ROWS if form is Form.GRID else 0
    require_data(loaded.settings)
    with answer(installation_of(loaded.settings), query) as found:
        left_out = write(found, form, most or None, sys.stdout)
    if left_out:
        click.echo(f"only the first {most} rows are printed: --limit 0 prints all", err=True)
