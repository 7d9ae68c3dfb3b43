"""A broker with a thousand idle connections and a topic of five thousand partitions."""

from pathlib import Path

import psutil
import pytest

from tests.support.idle_connections import allow_files, idle_connections, say_hello
from tests.support.ingress_process import ingress
from tests.support.wide_topic import consume_each, create_wide, produce_to_each

CONNECTIONS = 1_000
PARTITIONS = 5_000

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]


def test_serves_five_thousand_partitions_beside_a_thousand_idle_connections(
    tmp_path: Path,
) -> None:
    allow_files(2 * CONNECTIONS)
    with ingress(tmp_path) as started:
        (listening,) = started.ready()
        with idle_connections(listening.kafka, CONNECTIONS) as idle:
            create_wide(listening.kafka, "wide", PARTITIONS)
            produce_to_each(listening.kafka, "wide", PARTITIONS)

            found = consume_each(listening.kafka, "wide", PARTITIONS)

            assert found == {index: [str(index).encode()] for index in range(PARTITIONS)}
            for connection in idle:
                say_hello(connection)
        assert started.process.poll() is None
        assert psutil.Process(started.process.pid).is_running()
