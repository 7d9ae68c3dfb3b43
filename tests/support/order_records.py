"""Records of the topic `orders` for tests: good ones, and one of every bad kind with its reason."""

import json
from typing import Any, Final, NamedTuple

GOOD: Final[dict[str, Any]] = {
    "order_id": "o-100001",
    "customer_id": "c-0007",
    "status": "placed",
    "city": "Zürich",
    "country": "CH",
    "currency": "CHF",
    "total": 31.5,
    "items": [{"name": "tea pot", "count": 1, "price": 27.55}],
    "placed_at": "2026-03-01T12:00:00.250+00:00",
}


class Made(NamedTuple):
    """A value, and why it is refused; None when it is not."""

    value: bytes | None
    reason: str | None = None


def order(number: int, **changes: Any) -> bytes:
    """The value of a good order but for the changes; None leaves a field out."""
    whole = {**GOOD, "order_id": f"o-{number}", **changes}
    return json.dumps({name: value for name, value in whole.items() if value is not None}).encode()


EVERY_KIND: Final = (
    Made(order(1)),
    Made(order(2, city=None, items=None, total="12.50")),
    Made(order(3, extra={"new": True}, total=0)),
    Made(None, "the record has no value"),
    Made(b"", "the value is no JSON object"),
    Made(b"{broken", "the value is no JSON object"),
    Made(b"\xff\xfe\x00", "the value is no JSON object"),
    Made(b"[1, 2]", "the value is no JSON object"),
    Made(b'"text"', "the value is no JSON object"),
    Made(b"{}", "order_id is missing or of another type"),
    Made(order(4, total=None), "total is missing or of another type"),
    Made(order(5, total="twelve"), "total is missing or of another type"),
    Made(order(6, total={"amount": 5}), "total is missing or of another type"),
    Made(order(7, placed_at="yesterday"), "placed_at is missing or of another type"),
    Made(order(8, order_id=4711), "order_id is not like o-100001"),
    Made(order(9, currency="BTC"), "currency is not known"),
    Made(order(10, status="lost"), "status is not known"),
    Made(order(11, total=-1), "total is not between 0 and 1,000,000"),
    Made(order(12, placed_at="1970-01-01T00:00:00Z"), "placed_at is before the shop was"),
    Made(order(13, status="lost", currency="BTC"), "status is not known"),
    Made(order(1), "the order came before"),
    Made(order(14)),
)
