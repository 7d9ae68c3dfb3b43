"""The names of silver's tables, which go into SQL."""

import pytest

from lakestream_spark.spark.silver.pipeline import SilverJob
from lakestream_spark.spark.silver.tables import identifier, namespace_of


@pytest.mark.parametrize("topic", ["order-events", "a.b", "Orders", "2026", "select"])
def test_a_topic_of_any_name_gets_tables_that_sql_can_name(topic: str) -> None:
    job = SilverJob.of("lake", "silver.shop", topic, "checkpoint", {})
    assert job.topic == topic
    for table in (job.silver, job.quarantine):
        assert namespace_of(table) == "`lake`.`silver`.`shop`"
        name = table.removeprefix("`lake`.`silver`.`shop`.")
        assert (name[0], name[-1]) == ("`", "`")
        assert name.strip("`").replace("_", "").isalnum()
    assert job.silver != job.quarantine


def test_topics_of_like_names_get_tables_of_their_own() -> None:
    tables = [SilverJob.of("c", "n", topic, "", {}).silver for topic in ("a-b", "a.b", "a_b")]
    assert len(set(tables)) == 3
    assert tables[-1] == "`c`.`n`.`a_b`"


@pytest.mark.parametrize(
    ("table", "namespace"),
    [
        ("lake.silver.orders", "lake.silver"),
        ("`lake`.`silver`.`order-events`", "`lake`.`silver`"),
        ("`lake`.`silver`.`a.b`", "`lake`.`silver`"),
        ("`lake`.`a.b`.`c``.d`", "`lake`.`a.b`"),
    ],
)
def test_the_namespace_is_all_but_the_last_part(table: str, namespace: str) -> None:
    assert namespace_of(table) == namespace


def test_a_backtick_in_a_name_is_doubled() -> None:
    assert identifier("a", "b`c") == "`a`.`b``c`"
