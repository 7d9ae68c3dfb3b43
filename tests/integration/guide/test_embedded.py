"""The README on one machine: its sections, each on the same running platform, in any order."""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.support.guide import SNAPSHOT, Clone, clone
from tests.support.ingress_process import ingress
from tests.support.order_records import order
from tests.support.readme import EMBEDDED, headings_run_by

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]
CURRENCIES = ("CHF", "EUR", "EUR", "GBP")
LAG = "--config lakestream.table.lag.ms=2000"


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    """`lakestream up` with the topics of `make run`, all that was sent in their tables."""
    folder = tmp_path_factory.mktemp("clone")
    with ingress(folder / "lakestream-data", name="up") as process:
        (broker,) = process.ready()
        with clone(folder, {"127.0.0.1:9092": broker.kafka}) as typed:
            typed.shell(f"lakestream topic create orders --partitions 2 {LAG}")
            typed.shell(f"lakestream topic create payments {LAG}")
            send(broker.kafka)
            typed.shell("lakestream flush orders --timeout 240; lakestream flush payments")
            told = json.loads(typed.shell("lakestream offsets orders --json"))
            typed.example[SNAPSHOT] = str(told["snapshots"][-1]["snapshot_id"])
            yield typed
        assert process.stop() == 0


def send(bootstrap: str) -> None:
    """500 orders of 40 customers, and 100 payments."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(500):
        currency = CURRENCIES[number % len(CURRENCIES)]
        value = order(100_000 + number, currency=currency)
        producer.produce("orders", value, f"c-{number % 40:04}")
    for number in range(100_000, 100_100):
        value = json.dumps({"order_id": f"o-{number}", "amount": 31.5}).encode()
        producer.produce("payments", value, f"o-{number}")
    assert producer.flush(120) == 0


def every_order_was_read(platform: Clone) -> None:
    platform.python(
        'places = orders.select("__partition", "__offset")\n'
        "assert places.count() == places.distinct().count() == 500\n"
        "assert stream.isStreaming"
    )


def the_payment_is_gone_from_the_stream(platform: Clone) -> None:
    keys = platform.shell(r"lakestream consume payments --exit -f '%k\n'").split()
    assert keys == [f"o-{number}" for number in range(100_000, 100_100) if number != 100_013]


CHECKS = {
    "Spark": every_order_was_read,
    "Erase and retention": the_payment_is_gone_from_the_stream,
}
"""What must hold besides when a section was run."""


@pytest.mark.parametrize("heading", headings_run_by(EMBEDDED))
def test_a_section_does_what_it_says_on_a_platform(platform: Clone, heading: str) -> None:
    platform.run(heading)
    if heading in CHECKS:
        CHECKS[heading](platform)
