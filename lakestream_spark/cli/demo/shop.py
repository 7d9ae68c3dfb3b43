"""A shop that invents orders and payments: believable, and the same for the same seed.

What always holds: no order number is used twice; the total of an order is the sum of its items and
the shipping; a payment is about an order that was billed before, pays all of it in its currency and
carries its trace; a declined one is tried again once, with a card.
"""

import heapq
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final, NamedTuple

ORDERS: Final = "orders"
PAYMENTS: Final = "payments"
FIRST_ORDER: Final = 100_001

_CUSTOMERS: Final = 500
_CANCELLED: Final = 0.03
_DECLINED: Final = 0.04
_SOONEST_S: Final = 1.0
_LATEST_S: Final = 8.0
_RETRY_S: Final = 5.0


class City(NamedTuple):
    """Where customers live; prices are so much higher there than in the catalogue."""

    name: str
    country: str
    currency: str
    factor: float


CITIES: Final = (
    City("Berlin", "DE", "EUR", 1.0),
    City("Hamburg", "DE", "EUR", 1.0),
    City("Paris", "FR", "EUR", 1.05),
    City("Lyon", "FR", "EUR", 1.05),
    City("Wien", "AT", "EUR", 1.0),
    City("Amsterdam", "NL", "EUR", 1.02),
    City("Madrid", "ES", "EUR", 0.98),
    City("Zürich", "CH", "CHF", 1.15),
    City("Genève", "CH", "CHF", 1.15),
    City("London", "GB", "GBP", 0.88),
    City("Leeds", "GB", "GBP", 0.88),
    City("Kraków", "PL", "PLN", 4.25),
    City("New York", "US", "USD", 1.08),
    City("Portland", "US", "USD", 1.08),
    City("Toronto", "CA", "CAD", 1.48),
)
CATALOGUE: Final = (
    ("tea pot", 2395),
    ("desk lamp", 1890),
    ("notebook", 450),
    ("fountain pen", 3200),
    ("coffee beans 1 kg", 1650),
    ("rain jacket", 8900),
    ("bicycle bell", 1290),
    ("head phones", 12900),
    ("candle", 790),
    ("wool socks", 1100),
    ("chess set", 4500),
    ("plant pot", 1575),
)
"""Names and prices in cents."""

_METHODS: Final = ("card", "card", "card", "paypal", "invoice", "bank transfer")
_REASONS: Final = ("insufficient funds", "card expired", "limit exceeded")
_SOURCES: Final = (b"web", b"web", b"app")


class Record(NamedTuple):
    """What is sent to a topic."""

    topic: str
    key: bytes
    value: bytes
    headers: Sequence[tuple[str, bytes]]


class Order(NamedTuple):
    """An order, and the record that tells of it."""

    fields: dict[str, Any]
    record: Record


class _Bill(NamedTuple):
    """A payment that is due."""

    due: datetime
    number: int
    """Of the order: of one order there is one bill at a time."""
    order: Order
    attempt: int


class Shop:
    """Its customers order when they are asked to, and pay some seconds after they are billed."""

    def __init__(self, random: Random, *, first_order: int = FIRST_ORDER) -> None:
        self._random = random
        self._next = first_order
        self._bills: list[_Bill] = []

    def order(self, now: datetime) -> Order:
        """One more order."""
        random, number = self._random, self._next
        self._next += 1
        # Some customers order much more often than others.
        customer = 1 + int(_CUSTOMERS * random.random() ** 2)
        city = CITIES[customer * 7 % len(CITIES)]
        items = [
            (name, random.choice((1, 1, 1, 2, 3)), round(cents * city.factor))
            for name, cents in random.sample(CATALOGUE, random.choice((1, 1, 2, 2, 3)))
        ]
        shipping = round(395 * city.factor)
        total = shipping + sum(count * cents for _, count, cents in items)
        fields: dict[str, Any] = {
            "order_id": f"o-{number}",
            "customer_id": f"c-{customer:04}",
            "status": "cancelled" if random.random() < _CANCELLED else "placed",
            "city": city.name,
            "country": city.country,
            "currency": city.currency,
            "total": total / 100,
            "items": [{"name": n, "count": c, "price": p / 100} for n, c, p in items],
            "placed_at": now.isoformat(timespec="milliseconds"),
        }
        trace = f"{random.getrandbits(128):032x}".encode()
        headers = [("trace-id", trace), ("source", random.choice(_SOURCES))]
        return Order(fields, _record(ORDERS, fields["customer_id"], fields, headers))

    def bill(self, order: Order, now: datetime) -> None:
        """The order has arrived: its customer will pay, unless it is cancelled."""
        if order.fields["status"] != "cancelled":
            wait_s = self._random.uniform(_SOONEST_S, _LATEST_S)
            self._due(order, now + timedelta(seconds=wait_s), attempt=1)

    def payments(self, now: datetime) -> list[Record]:
        """Those that are due by now."""
        found = []
        while self._bills and self._bills[0].due <= now:
            found.append(self._pay(heapq.heappop(self._bills), now))
        return found

    def _pay(self, bill: _Bill, now: datetime) -> Record:
        order = bill.order.fields
        declined = bill.attempt == 1 and self._random.random() < _DECLINED
        fields = {
            "payment_id": f"p-{bill.number}-{bill.attempt}",
            "order_id": order["order_id"],
            "customer_id": order["customer_id"],
            "method": self._random.choice(_METHODS) if bill.attempt == 1 else "card",
            "status": "declined" if declined else "captured",
            "amount": order["total"],
            "currency": order["currency"],
            "paid_at": now.isoformat(timespec="milliseconds"),
        }
        if declined:
            fields["reason"] = self._random.choice(_REASONS)
            again = now + timedelta(seconds=_RETRY_S)
            self._due(bill.order, again, attempt=bill.attempt + 1)
        trace = bill.order.record.headers[0]
        return _record(PAYMENTS, order["order_id"], fields, [trace, ("source", b"payments")])

    def _due(self, order: Order, due: datetime, *, attempt: int) -> None:
        number = int(order.fields["order_id"].removeprefix("o-"))
        heapq.heappush(self._bills, _Bill(due, number, order, attempt))


def _record(
    topic: str, key: str, fields: dict[str, Any], headers: Sequence[tuple[str, bytes]]
) -> Record:
    value = json.dumps(fields, ensure_ascii=False).encode()
    return Record(topic, key.encode(), value, headers)
