"""Metrics: what is fed appears on the page, in Prometheus' own format."""

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lakestream_spark.core import metrics
from lakestream_spark.core.series import Level, Page, Spread


def page() -> dict[tuple[str, tuple[str, ...]], float]:
    families = text_string_to_metric_families(metrics.page_text().decode())
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def test_every_name_is_documented_once_and_of_this_project():
    assert len(set(metrics.NAMES)) == len(metrics.NAMES)
    assert all(name.startswith("lakestream_") for name in metrics.NAMES)
    told = dict(re.findall(r"^# HELP (\S+) (.*)$", metrics.page_text().decode(), re.MULTILINE))
    # The parser's own families have others; a sentence ends as one.
    assert [name for name in metrics.NAMES if not re.match(r"\S+ .*\.$", told[name])] == []


def test_an_answered_request_is_counted_with_its_bytes_and_time():
    series = metrics.api("TestOnly")
    series.answered(0.003, 100, 20)
    series.answered(40.0, 1, 0)
    series.failed("not_leader_or_follower")
    found = page()
    assert found["lakestream_requests_total", ("TestOnly",)] == 2
    assert found["lakestream_request_bytes_total", ("TestOnly",)] == 101
    assert found["lakestream_response_bytes_total", ("TestOnly",)] == 20
    assert found["lakestream_request_seconds_count", ("TestOnly",)] == 2
    assert found["lakestream_request_seconds_bucket", ("TestOnly", "0.0025")] == 0
    assert found["lakestream_request_seconds_bucket", ("TestOnly", "0.005")] == 1
    assert found["lakestream_request_seconds_bucket", ("TestOnly", "30.0")] == 1
    assert found["lakestream_request_seconds_bucket", ("TestOnly", "+Inf")] == 2
    assert found["lakestream_errors_total", ("TestOnly", "not_leader_or_follower")] == 1


def test_the_same_series_is_handed_out_each_time():
    assert metrics.api("TestOnly") is metrics.api("TestOnly")
    assert metrics.wal("cost") is metrics.wal("cost")


def test_a_watched_level_is_read_when_the_page_is_made():
    level = Level()
    number = 3.0
    end = level.watch(lambda: number)
    assert level.now() == 3.0
    number = 5.0
    assert level.now() == 5.0
    end()
    assert level.now() == 0.0


def test_a_value_at_a_bound_is_in_the_bucket_below_it():
    spread = Spread((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        spread.observe(value)
    assert spread.buckets() == [("1.0", 2.0), ("2.0", 4.0), ("+Inf", 5.0)]


def test_a_family_refuses_the_wrong_number_of_labels():
    family = Page().count("lakestream_x_total", "X.", "a", "b")
    with pytest.raises(ValueError, match=r"\('a', 'b'\)"):
        family.of("only one")
