"""deploy/monitoring: rules and dashboard by their own parsers, and by the metrics that exist."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from lakestream_spark.core import metrics
from tests.support.deployment import DEPLOY
from tests.support.queries import known_series, selectors, strangers

MONITORING = DEPLOY / "monitoring"
DASHBOARD = MONITORING / "grafana" / "dashboards" / "lakestream.json"
TOLD = yaml.safe_load((MONITORING / "alerts.yml").read_text())
RULES: list[dict[str, Any]] = [rule for group in TOLD["groups"] for rule in group["rules"]]


def panels() -> Iterator[dict[str, Any]]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield panel
        yield from panel.get("panels", ())


def shown() -> list[str]:
    """Every query of the dashboard."""
    return [target["expr"] for panel in panels() for target in panel.get("targets", ())]


def as_asked(query: str) -> str:
    """With an interval where Grafana puts one."""
    return query.replace("$__rate_interval", "1m")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_metrics_and_labels_that_exist(rule):
    assert strangers(rule["expr"], known_series()) == []
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert set(rule["annotations"]) == {"summary", "action"}
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}


@pytest.mark.parametrize("query", shown())
def test_the_dashboard_asks_for_metrics_and_labels_that_exist(query):
    assert strangers(as_asked(query), known_series()) == []


def test_alerts_have_names_of_their_own():
    assert len({rule["alert"] for rule in RULES}) == len(RULES) > 10


def test_batches_that_were_set_aside_raise_an_alert_and_are_shown():
    """They are the only records that never become rows."""
    name = metrics.TABLE_QUARANTINED.name
    for queries in ([rule["expr"] for rule in RULES], shown()):
        asked = {each.name for query in queries for each in selectors(as_asked(query))}
        assert name in asked


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("rate(lakestream_no_such_total[5m])", "lakestream_no_such_total"),
        ("sum by (topic) (lakestream_ready)", "topic"),
        ("lakestream_ready{topic='x'}", "topic"),
        ("histogram_quantile(0.9, lakestream_request_seconds)", "lakestream_request_seconds"),
        ("sum(rate(lakestream_errors_total[5m])) by (broker)", "broker"),
        ("max(lakestream_ready) or on (zone) up", "zone"),
    ],
)
def test_a_query_for_what_does_not_exist_would_be_noticed(query, wrong):
    assert strangers(query, known_series()) == [wrong]


def test_alerts_and_scrapes_speak_of_the_same_jobs():
    prometheus = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    jobs = {job["job_name"] for job in prometheus["scrape_configs"]}
    queries = [*(rule["expr"] for rule in RULES), *shown()]
    named = {
        matcher.value
        for query in queries
        for selector in selectors(as_asked(query))
        for matcher in selector.matchers.matchers
        if matcher.name == "job"
    }
    assert named == jobs
    assert prometheus["rule_files"] == ["alerts.yml"]


def test_grafana_knows_every_field_of_the_dashboard():
    register_default_plugins()
    told = json.loads(DASHBOARD.read_text())
    # What Grafana's own model does not know is gone after the round.
    assert json.loads(JSONEncoder().encode(Dashboard.from_json(told))) == told


def test_panels_are_told_apart_documented_and_fit_the_page():
    found = list(panels())
    assert len({panel["id"] for panel in found}) == len(found)
    for panel in found:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert panel["type"] == "row" or panel["description"].endswith(".")


def test_the_data_source_of_the_panels_is_the_one_that_is_provisioned():
    (source,) = yaml.safe_load((MONITORING / "grafana/datasources/prometheus.yaml").read_text())[
        "datasources"
    ]
    used = {panel["datasource"]["uid"] for panel in panels() if panel["type"] != "row"}
    assert used == {source["uid"]}
