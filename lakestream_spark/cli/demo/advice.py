"""How to go on from here: one's own Kafka client, DuckDB, Spark, and the status page."""

import shlex

from lakestream_spark.cli.connect import duckdb, place_of, spark_python
from lakestream_spark.cli.demo.program import program
from lakestream_spark.cli.demo.shop import ORDERS
from lakestream_spark.cli.demo.stage import Stage


def advise(stage: Stage) -> None:
    """Print what to type elsewhere while the platform runs."""
    screen, kafka = stage.screen, stage.listening.kafka
    place = place_of(stage.settings, ORDERS)
    own = f"{program()} {{}} {ORDERS} --data {shlex.quote(stage.settings.data)}"
    screen.blank()
    screen.advice("your client", f"bootstrap.servers={kafka}, or `{own.format('consume')}`")
    screen.advice(
        "DuckDB",
        f"this snapshot; the newest one by `{own.format('connect duckdb')}`",
        [line for line in duckdb(place).splitlines() if not line.startswith("--")],
    )
    screen.advice(
        "Spark",
        f"table and tail in Python; as SQL by `{own.format('connect spark')}`",
        filter(None, spark_python(place).splitlines()),
    )
    screen.advice("status page", stage.listening.admin)
