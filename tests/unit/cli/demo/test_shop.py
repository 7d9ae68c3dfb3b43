"""The shop of the demo: what it invents is believable, fits together and can be repeated."""

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

from lakestream_spark.cli.demo.shop import CITIES, FIRST_ORDER, ORDERS, PAYMENTS, Order, Shop
from lakestream_spark.spark.silver.orders import FIELDS, TOPIC
from lakestream_spark.spark.silver.rules import CURRENCIES, LARGEST, REQUIRED, STATUSES

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
COUNT = 1000


def orders(seed: int = 1, count: int = COUNT) -> list[Order]:
    shop = Shop(Random(seed))
    return [shop.order(NOON) for _ in range(count)]


def paid(seed: int = 1) -> tuple[list[Order], list[dict[str, Any]]]:
    """Orders that were all billed, and every payment that follows in the next minute."""
    shop = Shop(Random(seed))
    made = [shop.order(NOON) for _ in range(COUNT)]
    for order in made:
        shop.bill(order, NOON)
    found = []
    for second in range(60):
        for record in shop.payments(NOON + timedelta(seconds=second)):
            assert record.topic == PAYMENTS
            fields = json.loads(record.value)
            assert record.key.decode() == fields["order_id"]
            found.append({**fields, "trace": dict(record.headers)["trace-id"]})
    return made, found


def test_the_same_seed_invents_the_same():
    assert orders(seed=7) == orders(seed=7)
    assert paid(seed=7) == paid(seed=7)
    assert orders(seed=7) != orders(seed=8)


def test_order_numbers_are_used_once_and_go_on_from_where_they_are_told():
    numbers = [int(order.fields["order_id"].removeprefix("o-")) for order in orders()]
    assert numbers == list(range(FIRST_ORDER, FIRST_ORDER + COUNT))
    assert Shop(Random(1), first_order=5).order(NOON).fields["order_id"] == "o-5"


def test_an_order_costs_what_its_items_and_the_shipping_cost():
    factors = {city.name: city.factor for city in CITIES}
    for order in orders():
        fields = order.fields
        cents = sum(each["count"] * round(100 * each["price"]) for each in fields["items"])
        shipping = round(395 * factors[fields["city"]])
        assert round(100 * fields["total"]) == cents + shipping


def test_a_customer_lives_in_one_city_and_some_order_more_than_others():
    homes: dict[str, set[str]] = {}
    for order in orders():
        homes.setdefault(order.fields["customer_id"], set()).add(order.fields["city"])
    assert {len(cities) for cities in homes.values()} == {1}
    counts = Counter(order.fields["customer_id"] for order in orders())
    assert counts.most_common(1)[0][1] > 5
    assert {order.fields["currency"] for order in orders()} == set(CURRENCIES)


def test_the_record_of_an_order_is_its_fields_with_its_customer_as_key_and_a_trace():
    traces = set()
    for order in orders(count=100):
        assert order.record.topic == ORDERS
        assert order.record.key.decode() == order.fields["customer_id"]
        assert json.loads(order.record.value) == order.fields
        traces.add(dict(order.record.headers)["trace-id"])
    assert len(traces) == 100
    assert all(re.fullmatch(rb"[0-9a-f]{32}", trace) for trace in traces)


def test_every_order_is_good_enough_for_the_silver_example():
    assert ORDERS == TOPIC
    for order in orders():
        fields = order.fields
        assert fields.keys() == FIELDS.keys()
        assert all(fields[name] is not None for name in REQUIRED)
        assert re.fullmatch(r"o-\d+", fields["order_id"])
        assert re.fullmatch(r"c-\d+", fields["customer_id"])
        assert fields["status"] in STATUSES
        assert fields["currency"] in CURRENCIES
        assert 0 <= fields["total"] <= LARGEST
        assert fields["placed_at"] == "2026-03-01T12:00:00.000+00:00"


def test_payments_pay_orders_that_were_billed_in_full_and_carry_their_trace():
    made, payments = paid()
    by_id = {order.fields["order_id"]: order for order in made}
    for payment in payments:
        order = by_id[payment["order_id"]]
        assert payment["amount"] == order.fields["total"]
        assert payment["currency"] == order.fields["currency"]
        assert payment["customer_id"] == order.fields["customer_id"]
        assert payment["trace"] == dict(order.record.headers)["trace-id"]
        assert payment["paid_at"] > order.fields["placed_at"]


def test_every_order_is_paid_once_unless_it_is_cancelled():
    made, payments = paid()
    captured = Counter(each["order_id"] for each in payments if each["status"] == "captured")
    wanted = [each.fields["order_id"] for each in made if each.fields["status"] == "placed"]
    assert captured == Counter(wanted)
    assert 0 < COUNT - len(wanted) < COUNT / 10


def test_a_declined_payment_says_why_and_is_tried_again_with_a_card():
    _, payments = paid()
    declined = [each for each in payments if each["status"] == "declined"]
    assert 0 < len(declined) < COUNT / 10
    for each in declined:
        assert each["reason"]
        first, second = (one for one in payments if one["order_id"] == each["order_id"])
        assert (first["payment_id"], second["payment_id"]) == (
            f"p-{each['order_id'].removeprefix('o-')}-1",
            f"p-{each['order_id'].removeprefix('o-')}-2",
        )
        assert (second["status"], second["method"]) == ("captured", "card")


def test_nothing_is_paid_before_it_is_due_and_nothing_that_was_not_billed():
    shop = Shop(Random(1))
    order = shop.order(NOON)
    assert shop.payments(NOON + timedelta(hours=1)) == []
    shop.bill(order, NOON)
    assert shop.payments(NOON) == []
    _, payments = paid()
    assert all(a["paid_at"] <= b["paid_at"] for a, b in pairwise(payments))
