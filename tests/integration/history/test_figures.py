"""What a broker's metrics page shows of the records that it served out of tables."""

import os
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from lakestream_spark.spark.due import CompactPolicy
from tests.support.ingress_process import Listening, ingress
from tests.support.kafka import Sent, consume, produce
from tests.support.sparkless import SparklessCompaction

TOPIC: Final = "orders"
RECORDS: Final = 6_000
LARGE: Final = CompactPolicy(poll_s=0.02)
pytestmark = pytest.mark.long


def shown(broker: Listening) -> dict[str, float]:
    """Every sample of history, as Prometheus reads it, without `lakestream_history_`."""
    _, page = broker.get("/metrics")
    return {
        ":".join([sample.name.removeprefix("lakestream_history_"), *sample.labels.values()]): (
            sample.value
        )
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name.startswith("lakestream_history_")
    }


def test_a_replay_is_seen_on_the_page_of_its_broker(tmp_path: Path) -> None:
    values = [os.urandom(1000) for _ in range(RECORDS)]
    with ingress(tmp_path, "--set", "wal.cost.flush_interval_ms=20") as process:
        (broker,) = process.ready()
        produce(broker.kafka, TOPIC, [Sent(None, value) for value in values])
        compaction = SparklessCompaction(tmp_path, policy=LARGE)
        compaction.run_until_drained()
        compaction.close()
        idle = shown(broker)
        assert idle["starts_total"] == idle["rows_total"] == 0
        for _ in range(2):
            seen = consume(broker.kafka, TOPIC, offset=0, count=RECORDS)
            assert [each.value for each in seen] == values
        asker = Consumer({"bootstrap.servers": broker.kafka, "group.id": "unused"})
        asker.offsets_for_times([TopicPartition(TOPIC, 0, 1)], timeout=60)
        asker.close()
        figures = shown(broker)
        assert process.stop() == 0, "".join(process.log)
    assert figures["rows_total"] >= 2 * RECORDS
    assert figures["bytes_total"] > 2 * 1000 * RECORDS
    assert figures["reads_total:batches"] == figures["read_seconds_count:batches"] > 2
    assert figures["reads_total:a time"] == figures["read_seconds_count:a time"] == 1
    assert figures["wait_seconds_count:memory"] >= figures["reads_total:batches"]
    assert figures["wait_seconds_count:thread"] > figures["reads_total:batches"]
    assert figures["plan_seconds_count"] >= 1
    assert figures["row_groups_total"] >= 1
    # Every block was made once, and the second replay found all of them.
    made = figures["cache_misses_total"] + figures["ahead_blocks_total"]
    assert figures["cache_hits_total"] >= made >= 2
    assert figures["cache_bytes"] > 1000 * RECORDS
    assert figures["bytes_in_flight"] == 0
    assert figures["starts_total"] == 1
