"""deploy/monitoring by Prometheus' own tool: its files are valid, and an alert fires in time."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from lakestream_spark.core import metrics
from tests.support.deployment import DEPLOY
from tests.support.promtool import promtool

# Building the tool the first time takes minutes and must not count as the test's own time.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
MONITORING = DEPLOY / "monitoring"
ALERTS = MONITORING / "alerts.yml"
SET_ASIDE = "LakestreamBatchesSetAside"


def test_prometheus_takes_its_configuration_and_every_alert() -> None:
    rules = [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
    ]
    done = promtool("check", "config", "--lint=all", "--lint-fatal", MONITORING / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(rules)} rules found" in done.stdout


def test_a_configuration_that_is_none_would_be_noticed(tmp_path: Path) -> None:
    wrong = tmp_path / "prometheus.yml"
    wrong.write_text((MONITORING / "prometheus.yml").read_text().replace("job_name", "job"))
    done = promtool("check", "config", wrong)
    assert done.returncode == 1
    assert "field job not found" in done.stderr


def test_the_first_batch_that_is_set_aside_raises_an_alert_and_so_does_the_next(
    tmp_path: Path,
) -> None:
    name, topic = metrics.TABLE_QUARANTINED.name, "orders"
    # Minute by minute: no series, then one batch for a long time, then two.
    series = {"series": f'{name}{{topic="{topic}"}}', "values": "_x5 1x80 2x40"}
    moments = {"4m": [], "6m": [fired(topic)], "80m": [], "90m": [fired(topic)]}
    asked = [
        {"eval_time": moment, "alertname": SET_ASIDE, "exp_alerts": alerts}
        for moment, alerts in moments.items()
    ]
    told = {"interval": "1m", "input_series": [series], "alert_rule_test": asked}
    path = tmp_path / "set-aside.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [told]}))
    done = promtool("test", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr


def fired(topic: str) -> dict[str, Any]:
    """The alert as somebody gets it."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    (rule,) = [each for group in groups for each in group["rules"] if each["alert"] == SET_ASIDE]
    said = {
        key: text.replace("{{ $labels.topic }}", topic) for key, text in rule["annotations"].items()
    }
    return {"exp_labels": {**rule["labels"], "topic": topic}, "exp_annotations": said}
