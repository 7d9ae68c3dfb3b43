"""How far tables are behind, as metrics that move by themselves between two looks."""

from uuid import uuid4

from lakestream_spark.core import metrics
from lakestream_spark.metadata.backlog import PartitionBacklog, TopicBacklog
from lakestream_spark.metadata.tables import PlannedRange
from lakestream_spark.spark.lags import Lags
from tests.support.clock import SimulatedClock


async def test_lag_and_age_grow_until_the_next_look_or_commit() -> None:
    clock = SimulatedClock()
    lags, topic = Lags(clock), f"lags-{uuid4()}"
    lag, age = metrics.TABLE_LAG_SECONDS.of(topic), metrics.TABLE_COMMIT_AGE.of(topic)
    ranges = {1_000: PlannedRange(0, 5, 12), 2_000: PlannedRange(1, 0, 3)}
    backlog = TopicBacklog(tuple(PartitionBacklog(own, ms) for ms, own in ranges.items()))
    lags.show({topic: backlog}, 4_000)
    lags.left(77)
    assert metrics.TABLE_LAG_RECORDS.of(topic).now() == 10
    assert metrics.TABLE_LAG_BYTES.of().now() == 77
    assert lag.now() == 3.0
    await clock.advance(20.0)
    assert lag.now() == 23.0

    lags.committed(topic, 24_000)
    assert metrics.TABLE_COMMIT_LAG.of(topic).now() == 23.0
    assert age.now() == 0.0
    lags.show({}, 24_000)
    assert (lag.now(), metrics.TABLE_LAG_RECORDS.of(topic).now()) == (0.0, 0.0)
    assert metrics.TABLE_LAG_BYTES.of().now() == 0.0
    await clock.advance(7.0)
    assert (lag.now(), age.now()) == (0.0, 7.0)
