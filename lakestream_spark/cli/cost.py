"""`lakestream cost`: what a month of a stream costs, beside Kafka on replicated disks."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from lakestream_spark.cli.options import positive
from lakestream_spark.cli.output import cell, console, grid, titled
from lakestream_spark.core.errors import Misconfigured

MONTH_S: Final = 730 * 3600
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
_DEFAULT: Final = Path(__file__).with_name("prices.toml")
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

    An estimate from list prices: every line shows its arithmetic, so that you can check it.
    """
    load, known = Load(**given), _prices(prices or _DEFAULT)
    bills = {"lakestream": ours(load, known), "Kafka on disks": kafka(load, known)}
    if not all(isfinite(total(bill)) for bill in bills.values()):
        raise click.UsageError("the sums are beyond all numbers: give numbers of this world")
    if as_json:
        click.echo(json.dumps({who: [item._asdict() for item in b] for who, b in bills.items()}))
        return
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
    store, vcpu = prices["store"], prices["compute"]["vcpu_hour"] * 730
    brokers = max(load.brokers, load.mb_per_s * (1 + load.readers) / _BROKER_MB_PER_VCPU)
    compaction = load.mb_per_s / 1000 * _COMPACTION_CPU_S_PER_GB
    return [
        Item(
            "writes",
            puts / 1000 * store["put_per_1000"],
            f"{per_s:.1f} segments a second, a commit every {load.lag_s:g} s of "
            f"{load.partitions} files: {puts / 1e6:.1f} M PUT",
        ),
        Item(
            "reads",
            gets / 1000 * store["get_per_1000"],
            f"every segment by the compaction and {load.brokers - 1} other brokers: "
            f"{gets / 1e6:.1f} M GET",
        ),
        Item(
            "storage",
            held * store["gb_month"],
            f"{load.days:g} days x {load.table_ratio:g} in the table, and the WAL: {held:,.0f} GB",
        ),
        Item(
            "brokers",
            brokers * vcpu,
            f"{brokers:.1f} vCPU at {_BROKER_MB_PER_VCPU:g} MB/s each, at least one a broker",
        ),
        Item(
            "compaction",
            compaction * vcpu,
            f"{_COMPACTION_CPU_S_PER_GB:g} CPU-s for each GB: {compaction:.2f} vCPU",
        ),
        Item("across zones", 0.0, "brokers exchange data through the bucket"),
    ]


def kafka(load: Load, prices: Any) -> list[Item]:
    """Three replicas in three zones, and the same table made by a connector."""
    days = min(load.days, load.kafka_days)
    disk = load.kept_gb * days / load.days * _REPLICAS / _DISK_FULL
    crossing = load.gb * (2 / 3 + (_REPLICAS - 1) + load.readers * 2 / 3)
    vcpu = prices["compute"]["vcpu_hour"] * 730
    flow = load.mb_per_s * (_REPLICAS + load.readers)
    brokers = max(3.0, flow / _KAFKA_MB_PER_VCPU)
    copy = load.kept_gb * load.table_ratio
    return [
        Item(
            "disks",
            disk * prices["disk"]["gb_month"],
            f"{days:g} days x {_REPLICAS} replicas, {_DISK_FULL:.0%} full: {disk:,.0f} GB",
        ),
        Item(
            "across zones",
            crossing * 2 * prices["network"]["cross_zone_gb"],
            f"2/3 of what is sent, {_REPLICAS - 1} replicas, 2/3 of what is read: "
            f"{crossing:,.0f} GB, paid on both sides",
        ),
        Item("brokers", brokers * vcpu, f"{brokers:.1f} vCPU at {_KAFKA_MB_PER_VCPU:g} MB/s each"),
        Item(
            "the table's copy",
            copy * prices["store"]["gb_month"],
            f"the same rows again, in the bucket: {copy:,.0f} GB; the connector is not counted",
        ),
    ]


def _prices(path: Path) -> Any:
    try:
        prices = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Misconfigured(f"the prices cannot be read: {error.strerror}", file=path) from error
    except ValueError as error:
        raise Misconfigured(f"the prices are not TOML: {error}", file=path) from error
    for section, names in _NEEDED.items():
        for name in names:
            if not isinstance(prices.get(section, {}).get(name), int | float):
                raise Misconfigured(f"the prices lack the number {section}.{name}", file=path)
    return prices
