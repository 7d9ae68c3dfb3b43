"""`lakestream cost`: what a month of a stream costs, beside Kafka on replicated disks."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from lakestream_spark.cli.options import positive
from lakestream_spark.cli.output import cell, console, grid, titled
from lakestream_spark.core.errors import Misconfigured

_MONTH_H: Final = 730
MONTH_S: Final = _MONTH_H * 3600
_GB: Final = 1e9
_SEGMENT_MB: Final = 8.388608
_FLUSHES_PER_S: Final = {"cost": 4.0, "latency": 200.0}
_BROKER_MB_PER_VCPU: Final = 60.0
_KAFKA_MB_PER_VCPU: Final = 60.0
_COMPACTION_CPU_S_PER_GB: Final = 11.0
_METADATA_PUTS: Final = 4
"""Of a commit: data aside, a manifest, a manifest list, a metadata file and its pointer."""
_WAL_HELD_S: Final = 60.0
_REPLICAS: Final = 3
_DISK_FULL: Final = 0.6
_MOST: Final = 1_000_000
DEFAULT_PRICES: Final = Path(__file__).with_name("prices.toml")
_NEEDED: Final = {
    "store": ("put_per_1000", "get_per_1000", "gb_month"),
    "disk": ("gb_month",),
    "network": ("cross_zone_gb",),
    "compute": ("vcpu_hour",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What flows for a month."""

    mb_per_s: float
    profile: str
    lag_s: float
    partitions: int
    brokers: int
    readers: float
    days: float
    kafka_days: float
    """Kafka's disks hold less than the table, which has the rest."""
    table_ratio: float
    """Bytes in the table for each byte that is sent."""

    @property
    def gb(self) -> float:
        return self.mb_per_s * 1e6 * MONTH_S / _GB

    @property
    def kept_gb(self) -> float:
        return self.mb_per_s * 1e6 * self.days * 86_400 / _GB


class Item(NamedTuple):
    """A line of the bill, with how it came about."""

    what: str
    dollars: float
    arithmetic: str


@click.command()
@click.option(
    "--rate", "mb_per_s", type=positive, default=10.0, show_default=True, help="MB/s sent."
)
@click.option("--profile", type=click.Choice(["cost", "latency"]), default="cost")
@click.option(
    "--lag", "lag_s", type=positive, default=60.0, show_default=True, help="Lag target, s."
)
@click.option("--partitions", type=click.IntRange(1, _MOST), default=12, show_default=True)
@click.option("--brokers", type=click.IntRange(1, _MOST), default=3, show_default=True)
@click.option(
    "--readers", type=positive, default=2.0, show_default=True, help="Consumers at the tail."
)
@click.option(
    "--days", type=positive, default=30.0, show_default=True, help="How long data is kept."
)
@click.option(
    "--kafka-days", type=positive, default=7.0, show_default=True, help="What Kafka's disks keep."
)
@click.option(
    "--table-ratio",
    type=positive,
    default=0.5,
    show_default=True,
    help="Bytes in the table for each byte sent.",
)
@click.option(
    "--prices", type=click.Path(path_type=Path), metavar="FILE", help="Your own, as TOML."
)
@click.option("--json", "as_json", is_flag=True, help="Print the bill as JSON.")
def cost(prices: Path | None, as_json: bool, **given: Any) -> None:
    """Tell what a month of a stream costs, beside Kafka on replicated disks.

    An estimate: every line shows its arithmetic with the price of each unit, so that you can check
    it, and the file of prices is named.
    """
    file = prices or DEFAULT_PRICES
    load, known = Load(**given), _prices(file)
    bills = {"lakestream": ours(load, known), "Kafka on disks": kafka(load, known)}
    if not all(isfinite(total(bill)) for bill in bills.values()):
        raise click.UsageError("the sums are beyond all numbers: give numbers of this world")
    if as_json:
        shown = {who: [item._asdict() for item in bill] for who, bill in bills.items()}
        click.echo(json.dumps({**shown, "prices": str(file)}))
        return
    _show(bills, load)
    whose = "yours" if prices else "list prices; --prices takes your own"
    click.echo(f"Prices in US dollars from {file} ({whose}).")


def _show(bills: Mapping[str, Sequence[Item]], load: Load) -> None:
    out = console()
    for who, bill in bills.items():
        rows = grid("", "a month", "")
        for item in bill:
            rows.add_row(item.what, f"${item.dollars:,.0f}", item.arithmetic)
        rows.add_row(cell("together", "bold"), cell(f"${total(bill):,.0f}", "bold"), "")
        flow = f", {load.mb_per_s:g} MB/s, {load.gb:,.0f} GB a month"
        out.print(titled(who, flow))
        out.print(rows)


def total(bill: Sequence[Item]) -> float:
    return sum(item.dollars for item in bill)


def ours(load: Load, prices: Any) -> list[Item]:
    """One copy in the bucket; brokers and the compaction keep nothing."""
    per_s = max(load.mb_per_s / _SEGMENT_MB, load.brokers * _FLUSHES_PER_S[load.profile])
    segments = per_s * MONTH_S
    commits = MONTH_S / load.lag_s
    puts = segments + commits * (load.partitions + _METADATA_PUTS)
    gets = segments * load.brokers
    held = load.kept_gb * load.table_ratio + load.mb_per_s * (load.lag_s + _WAL_HELD_S) / 1000
    store = prices["store"]
    brokers = max(load.brokers, load.mb_per_s * (1 + load.readers) / _BROKER_MB_PER_VCPU)
    compaction = load.mb_per_s / 1000 * _COMPACTION_CPU_S_PER_GB
    return [
        _requests(
            "writes",
            f"{per_s:.1f} segments a second, a commit every {load.lag_s:g} s of "
            f"{load.partitions} files and {_METADATA_PUTS} more",
            puts,
            "PUT",
            store["put_per_1000"],
        ),
        _requests(
            "reads",
            f"every segment by the compaction and {load.brokers - 1} other brokers",
            gets,
            "GET",
            store["get_per_1000"],
        ),
        _gigabytes(
            "storage",
            f"{load.days:g} days × {load.table_ratio:g} in the table, and the WAL",
            held,
            store["gb_month"],
        ),
        _processors(
            "brokers",
            f"{_BROKER_MB_PER_VCPU:g} MB/s by each, at least one a broker",
            brokers,
            prices["compute"]["vcpu_hour"],
        ),
        _processors(
            "compaction",
            f"{_COMPACTION_CPU_S_PER_GB:g} CPU-s for each GB",
            compaction,
            prices["compute"]["vcpu_hour"],
        ),
        Item("across zones", 0.0, "brokers exchange data through the bucket: 0 GB = $0"),
    ]


def kafka(load: Load, prices: Any) -> list[Item]:
    """Three replicas in three zones, and the same table made by a connector."""
    days = min(load.days, load.kafka_days)
    disk = load.kept_gb * days / load.days * _REPLICAS / _DISK_FULL
    crossing = load.gb * (2 / 3 + (_REPLICAS - 1) + load.readers * 2 / 3)
    flow = load.mb_per_s * (_REPLICAS + load.readers)
    brokers = max(3.0, flow / _KAFKA_MB_PER_VCPU)
    return [
        _gigabytes(
            "disks",
            f"{days:g} days × {_REPLICAS} replicas, {_DISK_FULL:.0%} full",
            disk,
            prices["disk"]["gb_month"],
        ),
        _gigabytes(
            "across zones",
            f"2/3 of what is sent, {_REPLICAS - 1} replicas, 2/3 of what is read, "
            "paid on both sides",
            2 * crossing,
            prices["network"]["cross_zone_gb"],
        ),
        _processors(
            "brokers",
            f"{_KAFKA_MB_PER_VCPU:g} MB/s by each, at least three",
            brokers,
            prices["compute"]["vcpu_hour"],
        ),
        _gigabytes(
            "the table's copy",
            "the same rows again, in the bucket; the connector is not counted",
            load.kept_gb * load.table_ratio,
            prices["store"]["gb_month"],
        ),
    ]


def _requests(what: str, why: str, count: float, kind: str, price: float) -> Item:
    dollars = count / 1000 * price
    return _item(what, why, f"{count / 1e6:,.1f} M {kind} × ${price:g} per 1,000", dollars)


def _gigabytes(what: str, why: str, size: float, price: float) -> Item:
    return _item(what, why, f"{size:,.0f} GB × ${price:g}", size * price)


def _processors(what: str, why: str, count: float, price: float) -> Item:
    dollars = count * _MONTH_H * price
    return _item(what, why, f"{count:,.2f} vCPU × {_MONTH_H} h × ${price:g}", dollars)


def _item(what: str, why: str, product: str, dollars: float) -> Item:
    return Item(what, dollars, f"{why}: {product} = ${dollars:,.0f}")


def _prices(path: Path) -> Any:
    try:
        prices = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Misconfigured(f"the prices cannot be read: {error.strerror}", file=path) from error
    except ValueError as error:
        raise Misconfigured(f"the prices are not TOML: {error}", file=path) from error
    for section, names in _NEEDED.items():
        own = prices.get(section)
        for name in names:
            _check_price(own.get(name) if isinstance(own, dict) else None, section, name, path)
    return prices


def _check_price(price: Any, section: str, name: str, path: Path) -> None:
    # A boolean is an int to Python.
    if isinstance(price, bool) or not isinstance(price, int | float):
        raise Misconfigured(f"the prices lack the number {section}.{name}", file=path)
    if not isfinite(price) or price < 0:
        raise Misconfigured(f"the price {section}.{name} is {price}, below 0 or endless", file=path)
