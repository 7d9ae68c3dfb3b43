"""What a drain takes for done while a table rests after a failure."""

from typing import Any, cast

import pytest

from lakestream_spark.metadata import open_metadata
from lakestream_spark.spark.due import CompactPolicy
from lakestream_spark.spark.holdings import Holdings
from lakestream_spark.spark.planner import Planner
from lakestream_spark.spark.scope import Scope
from lakestream_spark.spark.troubles import Troubles
from tests.support.clock import SimulatedClock


class ImpatientClock(SimulatedClock):
    """Some time has passed whenever somebody looks."""

    def __init__(self, between_looks_s: float) -> None:
        super().__init__()
        self._between_looks_s = between_looks_s

    def monotonic(self) -> float:
        self._now += self._between_looks_s
        return self._now


@pytest.mark.parametrize("between_looks_s", [0.0, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4])
async def test_a_rest_that_ends_during_a_look_does_not_make_its_topic_look_done(
    between_looks_s: float,
) -> None:
    metadata = await open_metadata("sqlite://", clock=SimulatedClock())
    try:
        topic = await metadata.topics.create("orders")
        scope, policy = Scope(job="mine", drain=True), CompactPolicy()
        holdings = Holdings(metadata.leases, scope.job, policy.session_s)
        troubles = Troubles(metadata.problems, ImpatientClock(between_looks_s))
        nobody = cast("Any", None)  # Nothing is recovered within one look.
        planner = Planner(metadata, nobody, holdings, troubles, scope, policy, SimulatedClock())
        troubles.topic_failed(topic.id, ValueError("nobody thought of this"))
        planner.settler.later(topic, 0)
        await planner.plan(0)
        assert planner.waiting == {"orders"}
    finally:
        await metadata.close()
