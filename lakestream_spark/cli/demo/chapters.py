"""The chapters of the story: what a user would do next, done with what a user has.

Each chapter returns what it has to tell, and raises when it did not come to pass.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lakestream_spark.cli.asking import metadata_of, table_of
from lakestream_spark.cli.demo.replay import in_tables, replay
from lakestream_spark.cli.demo.shop import ORDERS, PAYMENTS
from lakestream_spark.cli.demo.stage import Stage
from lakestream_spark.cli.demo.traffic import ORDERS_PER_SECOND
from lakestream_spark.cli.verify import run_verify
from lakestream_spark.core.errors import Corrupt, RedTable
from lakestream_spark.settings.installation import installation_of
from lakestream_spark.sql.lake import answer
from lakestream_spark.verify.pinned import Asked

QUERY: Final = (
    "SELECT decode(__value)->>'$.currency' AS currency, count(*) AS orders,",
    "       sum((decode(__value)->>'$.total')::DECIMAL(12, 2)) AS revenue",
    "FROM orders GROUP BY currency ORDER BY orders DESC",
)
_ACKNOWLEDGED_S: Final = 60.0
_COMMITTED_S: Final = 300.0
_POLL_S: Final = 0.1
_WIDTH: Final = 11


class Told(NamedTuple):
    """A sentence, and lines below it."""

    text: str
    details: Sequence[str] = ()


def started(stage: Stage) -> Told:
    found = [f"{each.records:,} {each.name}" for each in stage.before.values() if each.records]
    here = f"found {' and '.join(found)} from before" if found else "everything is"
    return Told(f"a broker on {stage.listening.kafka}; {here} in {stage.settings.data}")


def produced(stage: Stage) -> Told:
    stage.traffic.start()
    sent = stage.traffic.sent
    stage.wait_for(lambda: sent[ORDERS] > 0, "nothing was produced", _ACKNOWLEDGED_S)
    rate = f"about {2 * ORDERS_PER_SECOND:.0f} records a second"
    return Told(f"{ORDERS} and {PAYMENTS} as JSON, {rate}, by a stock Kafka client")


def acknowledged(stage: Stage) -> Told:
    traffic = stage.traffic
    what = "no record was acknowledged"
    stage.wait_for(lambda: traffic.first is not None, what, _ACKNOWLEDGED_S)
    assert traffic.first is not None
    place, seconds = traffic.first
    return Told(
        f"the first after {1000 * seconds:.0f} ms, at offset {place.offset} of "
        f"{place.topic}-{place.partition}: in the WAL, and safe"
    )


def committed(stage: Stage) -> Told:
    """Rows of this run are in the table of the orders."""
    asyncio.run(_in_table(stage, ORDERS))
    after_s = stage.clockwork.at_s
    _, table = table_of(stage.settings, ORDERS)
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        raise Corrupt("the table end moved, and the table has no snapshot", topic=ORDERS)
    rows, files = snapshot.summary["total-records"], snapshot.summary["total-data-files"]
    new = "first new row" if stage.before[ORDERS].in_table else "first row"
    return Told(
        f"as snapshot {snapshot.snapshot_id}, {int(rows or 0):,} rows in {files} files; "
        f"{new} in the table after {after_s:.0f} s"
    )


async def _in_table(stage: Stage, name: str) -> None:
    """Until the table end of the topic has moved since the start."""
    async with metadata_of(stage.settings) as metadata:
        topic = await metadata.topics.get(name)
        ends = 0

        def look() -> bool:
            return ends > stage.before[name].in_table

        deadline = stage.clockwork.at_s + _COMMITTED_S
        while not look():
            ends = sum((await metadata.backlog.table_ends(topic.id)).values())
            for problem in await metadata.problems.list(topic.id):
                raise RedTable(problem.sentence, remedy=problem.remedy)
            stage.check()
            if stage.clockwork.at_s > deadline:
                stage.wait_for(look, f"no row of {name} was committed", 0)
            await asyncio.sleep(_POLL_S)


def queried(stage: Stage) -> Told:
    """The answer must have every order that was acknowledged before the question."""
    least = stage.before[ORDERS].records + stage.traffic.acknowledged[ORDERS]
    query = "\n".join(QUERY)
    installation = installation_of(stage.settings)
    with answer(installation, query) as found:
        rows = [row for batch in found.batches for row in batch.to_pylist()]
    counted = sum(row["orders"] for row in rows)
    if counted < least:
        raise Corrupt("SQL misses acknowledged records", expected=least, actual=counted)
    text = f"by SQL, table and tail as one, fields out of the JSON: {counted:,} orders, each once"
    return Told(text, [*QUERY, "", *_across(rows)])


def _across(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A column for each row: there are few, and lines are precious."""
    return [
        f"{name:<8}" + "".join(f"{row[name]:>{_WIDTH}{form}}" for row in rows)
        for name, form in (("currency", ""), ("orders", ","), ("revenue", ",.2f"))
    ]


def replayed(stage: Stage) -> Told:
    wanted = in_tables(stage.settings, (ORDERS, PAYMENTS))
    found = replay(stage.listening.kafka, wanted, dict(stage.traffic.digests), stage.check)
    return Told(
        f"{found.records:,} records from offset {found.first_offset} on out of Parquet, by a new "
        f"consumer group; {found.compared:,} of them are byte for byte what was sent"
    )


def verified(stage: Stage) -> Told:
    asyncio.run(_in_table(stage, PAYMENTS))
    found = [run_verify(stage.settings, name, Asked()) for name in (ORDERS, PAYMENTS)]
    rows = sum(part.rows for each in found for part in each.partitions)
    files = sum(each.looked.files for each in found)
    return Told(
        f"stream and table are one: {rows:,} rows in {files} files, no offset missing or twice, "
        "checksums right"
    )


SCRIPT: Final[Mapping[str, Callable[[Stage], Told]]] = {
    "started": started,
    "produced": produced,
    "acknowledged": acknowledged,
    "committed": committed,
    "queried": queried,
    "replayed": replayed,
    "verified": verified,
}
"""What is done for each chapter."""

DOING: Final[Mapping[str, str]] = {
    "started": "the broker starts",
    "produced": "the shop opens",
    "acknowledged": "waiting for the first offset",
    "committed": "Spark starts, turns the WAL into Parquet and commits it",
    "queried": "asking for the revenue by currency",
    "replayed": "a new consumer group reads everything again",
    "verified": "comparing stream and table",
}
