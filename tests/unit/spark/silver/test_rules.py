"""What orders are and what is expected of them, without Spark."""

import sys

import pytest

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.spark.reading.columns import TABLE_COLUMNS
from lakestream_spark.spark.silver import rules
from lakestream_spark.spark.silver.orders import BROKEN, FIELDS, RECORD
from lakestream_spark.spark.silver.tables import QUARANTINE, SILVER


def test_the_record_is_the_one_of_the_stream():
    assert RECORD == TABLE_COLUMNS


def test_both_tables_know_where_a_row_comes_from_and_the_quarantine_keeps_all_of_it():
    assert set(RECORD) <= set(QUARANTINE)
    assert {"__partition", "__offset"} <= set(SILVER)
    assert set(SILVER) - {"__partition", "__offset", "__timestamp"} == set(FIELDS)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_rule_has_a_reason_of_its_own_and_a_column_that_is_there():
    found = rules.rules()
    assert len({each.description for each in found}) == len(found)
    assert {getattr(each, "column", None) for each in found} <= {*FIELDS, *RECORD, BROKEN}
    assert set(rules.REQUIRED) <= set(FIELDS)


def test_without_great_expectations_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "great_expectations", None)
    with pytest.raises(Misconfigured, match=r"pip install 'lakestream-spark\[quality\]'"):
        rules.great_expectations()
