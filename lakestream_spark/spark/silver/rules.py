"""What a good order is, as expectations; the first that a row fails is the reason it is told.

Great Expectations takes seconds to load and sends statistics unless it is told not to, so it is
loaded here only, when the rules are asked for.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.spark.silver.orders import BROKEN

if TYPE_CHECKING:
    from great_expectations.expectations.expectation import Expectation

HINT: Final = "Great Expectations is not installed: `pip install 'lakestream-spark[quality]'`"
REQUIRED: Final = ("order_id", "customer_id", "status", "currency", "total", "placed_at")
STATUSES: Final = ("placed", "paid", "shipped", "delivered", "cancelled")
CURRENCIES: Final = ("CAD", "CHF", "EUR", "GBP", "PLN", "USD")
LARGEST: Final = 1_000_000
FIRST_DAY: Final = "2020-01-01T00:00:00Z"


def great_expectations() -> Any:
    """The package, with its statistics switched off; raises `Misconfigured` when it is missing."""
    # Before the import, which reads it.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    try:
        import great_expectations
    except ModuleNotFoundError:
        raise Misconfigured(HINT) from None
    return great_expectations


def rules() -> "Sequence[Expectation]":
    """In the order of their weight: a row that is no JSON has no fields to speak of."""
    expect = great_expectations().expectations
    not_null, be_null = expect.ExpectColumnValuesToNotBeNull, expect.ExpectColumnValuesToBeNull
    match, in_set = expect.ExpectColumnValuesToMatchRegex, expect.ExpectColumnValuesToBeInSet
    between = expect.ExpectColumnValuesToBeBetween
    return [
        not_null(column="__value", description="the record has no value"),
        be_null(column=BROKEN, description="the value is no JSON object"),
        *(
            not_null(column=name, description=f"{name} is missing or of another type")
            for name in REQUIRED
        ),
        match(column="order_id", regex=r"^o-\d+$", description="order_id is not like o-100001"),
        match(column="customer_id", regex=r"^c-\d+$", description="customer_id is not like c-0001"),
        in_set(column="status", value_set=[*STATUSES], description="status is not known"),
        in_set(column="currency", value_set=[*CURRENCIES], description="currency is not known"),
        between(
            column="total",
            min_value=0,
            max_value=LARGEST,
            description=f"total is not between 0 and {LARGEST:,}",
        ),
        between(
            column="placed_at", min_value=FIRST_DAY, description="placed_at is before the shop was"
        ),
    ]
