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
_REPLAYED_S: Final = 300.0
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
    check = stage.deadline(f"no row of {name} was committed", _COMMITTED_S)
    async with metadata_of(stage.settings) as metadata:
        topic = await metadata.topics.get(name)
        while True:
            ends = sum((await metadata.backlog.table_ends(topic.id)).values())
            if ends > stage.before[name].in_table:
                return
            for problem in await metadata.problems.list(topic.id):
                raise RedTable(problem.sentence, remedy=problem.remedy)
            check()
            await asyncio.sleep(_POLL_S)


def queried(stage: Stage) -> Told:
    """The answer must have every order that this run got acknowledged before the question."""
    least = stage.traffic.acknowledged[ORDERS]
    begins = {part: at for (topic, part), at in stage.traffic.begins.items() if topic == ORDERS}
    with answer(installation_of(stage.settings), asked(begins)) as found:
        rows = [row for batch in found.batches for row in batch.to_pylist()]
    counted = check_counts(rows, least)
    text = f"by SQL, table and tail as one, fields out of the JSON: {counted:,} orders, each once"
    return Told(text, [*QUERY, "", *across(rows)])


def asked(begins: Mapping[int, int]) -> str:
    """The query, and beside each row of its answer what the orders of the same moment come to:
    how many offsets they have, and how many of those lie where this run began or behind that."""
    own = " OR ".join(f"(__partition = {part} AND __offset >= {at})" for part, at in begins.items())
    return (
        f"SELECT * FROM ({' '.join(QUERY)}) CROSS JOIN ("
        "SELECT count(DISTINCT (__partition, __offset)) AS offsets, "
        f"count(DISTINCT (__partition, __offset)) FILTER (WHERE {own or 'false'}) AS own "
        "FROM orders) ORDER BY orders DESC"
    )


def check_counts(rows: Sequence[Mapping[str, Any]], least: int) -> int:
    """How many orders there are; raises when one is there twice or `least` of this run are not."""
    counted: int = sum(row["orders"] for row in rows)
    offsets, own = (rows[0]["offsets"], rows[0]["own"]) if rows else (0, 0)
    if counted != offsets:
        raise Corrupt("SQL has not each record once", rows=counted, offsets=offsets)
    if own < least:
        raise Corrupt("SQL misses acknowledged records of this run", expected=least, actual=own)
    return counted


def across(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A column for each row: there are few, and lines are precious."""
    return [
        f"{name:<8}" + "".join(f"{_cell(row[name], form):>{_WIDTH}}" for row in rows)
        for name, form in (("currency", ""), ("orders", ","), ("revenue", ",.2f"))
    ]


def _cell(value: Any, form: str) -> str:
    return "NULL" if value is None else format(value, form)


def replayed(stage: Stage) -> Told:
    wanted = in_tables(stage.settings, (ORDERS, PAYMENTS))
    check = stage.deadline("the replay did not come to its end", _REPLAYED_S)
    found = replay(stage.listening.kafka, wanted, dict(stage.traffic.digests), check)
    return Told(
        f"{found.records:,} records from offset {found.first_offset} on out of Parquet, by a new "
        f"consumer group; {found.compared:,} of them are byte for byte what was sent"
    )


def verified(stage: Stage) -> Told:
    asyncio.run(_in_table(stage, PAYMENTS))
    found = [run_verify(stage.settings, name, Asked()) for name in (ORDERS, PAYMENTS)]
    rows = sum(part.rows for each in found for part in each.partitions)
    files = sum(each.looked.files for each in found)
    erased = sum(hole.offsets for each in found for part in each.partitions for hole in part.holes)
    missing = f"no offset missing but {erased:,} erased, none" if erased else "no offset missing or"
    return Told(
        f"stream and table are one: {rows:,} rows in {files} files, {missing} twice, "
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
