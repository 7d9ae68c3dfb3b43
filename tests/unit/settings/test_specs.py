"""What components are given: the defaults are their own, and what cannot work is a sentence."""

import pytest

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.groups import GroupLimits
from lakestream_spark.ingress.broker import Limits
from lakestream_spark.ingress.broker_settings import BROKER_SETTINGS
from lakestream_spark.ingress.server import ConnectionLimits
from lakestream_spark.settings import Entry, Settings, load
from lakestream_spark.settings.specs import (
    connection_limits,
    group_limits,
    request_limits,
    shown_settings,
    upkeep_policy,
)
from lakestream_spark.table.upkeep.policy import UpkeepPolicy


def settings(**values: int) -> Settings:
    flags = [
        Entry(key=key.replace("__", "."), value=str(value), origin="test")
        for key, value in values.items()
    ]
    return load(environ={}, flags=flags).settings


def test_the_defaults_are_those_of_the_parts_that_read_them():
    assert request_limits(settings()) == Limits()
    assert connection_limits(settings()) == ConnectionLimits()
    assert group_limits(settings()) == GroupLimits()
    assert upkeep_policy(settings()) == UpkeepPolicy()


def test_what_is_shown_by_default_is_what_clients_take_for_the_default():
    defaults = {setting.name: setting.default for setting in BROKER_SETTINGS}
    shown = shown_settings(settings())
    assert shown == {name: defaults[name] for name in shown}


def test_a_broker_has_room_for_its_largest_request():
    with pytest.raises(Misconfigured, match=r"max_inflight_bytes must be at least"):
        request_limits(settings(broker__max_inflight_bytes=50 << 20))


def test_the_shortest_session_is_not_above_the_longest():
    with pytest.raises(Misconfigured, match=r"groups\.min_session_timeout_ms must not be above"):
        group_limits(settings(groups__min_session_timeout_ms=2_000_000))


def test_upkeep_does_what_the_settings_say():
    own = settings(
        maintain__target_file_bytes=64 << 20,
        maintain__merge_min_files=3,
        maintain__snapshots_kept=7,
        maintain__hourly_tags=0,
        maintain__daily_tags=2,
        maintain__orphan_grace_ms=3_600_000,
    )
    policy = upkeep_policy(own)
    assert (policy.merge.target_bytes, policy.merge.min_files) == (64 << 20, 3)
    assert (policy.snapshots.newest, policy.snapshots.hours, policy.snapshots.days) == (7, 0, 2)
    assert policy.orphans.grace_ms == 3_600_000


def test_orphans_are_given_an_hour_at_least():
    with pytest.raises(Misconfigured, match=r"orphan_grace_ms = 1000 is not valid"):
        settings(maintain__orphan_grace_ms=1000)
