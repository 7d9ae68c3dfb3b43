"""`lakestream cost`: what a month of a stream costs, beside Kafka on replicated disks."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import click

from lakestream_spark.cli.options import positive
from lakestream_spark.cli.output import cell, console, grid, titled
from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.settings.tree import (
    LATENCY_AHEAD,
    CostProfile,
    LatencyProfile,
    Section,
    WalSettings,
)

_MONTH_H: Final = 730
MONTH_S: Final = _MONTH_H * 3600
_GB: Final = 1e9
_PROFILES: Final[Mapping[str, type[Section]]] = {"cost": CostProfile, "latency": LatencyProfile}
_UPLOAD_MS: Final = 10.0
"""What a quick store takes for a small segment."""
_BROKER_MB_PER_VCPU: Final = 60.0
_KAFKA_MB_PER_VCPU: Final = 60.0
_COMPACTION_CPU_S_PER_GB: Final = 11.0
_METADATA_PUTS: Final = 4
"""Of a commit: data aside, a manifest, a manifest list, a metadata file and its pointer."""
_REPLICAS: Final = 3
_DISK_FULL: Final = 0.6
_MOST: Final = 1_000_000
DEFAULT_PRICES: Final = Path(__file__).with_name("prices.toml")
_NEEDED: Final = {
    "store": ("put_per_1000", "get_per_1000", "gb_month"),
    "disk": ("gb_month",),
    "network": ("cross_zone_gb",),
    "compute": ("vcpu_hour",),
    "database": ("hour",),
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
    def sealed(self) -> "Sealed":
        return Sealed.of(self.profile)

    @property
    def segments_per_s(self) -> float:
        """As many as the bytes fill, and at most as many as the time allows where they do not."""
        return max(self.mb_per_s / self.sealed.mb, self.brokers * self.sealed.per_s)

    @property
    def crossing_gb(self) -> float:
        """What clients send and read across zones, of three, when nothing keeps them in theirs."""
        return self.gb * (1 + self.readers) * 2 / 3

    @property
    def kept_gb(self) -> float:
        return self.mb_per_s * 1e6 * self.days * 86_400 / _GB


class Sealed(NamedTuple):
    """When a broker seals a WAL segment, by the defaults of the settings."""

    interval_ms: int
    bytes: int
    at_once: int
    """So many are under way; another one waits until one of them is stored."""

    @classmethod
    def of(cls, profile: str) -> Self:
        known = _PROFILES[profile]
        at_once = LATENCY_AHEAD if profile == "latency" else _default(WalSettings, "max_uploads")
        return cls(_default(known, "flush_interval_ms"), _default(known, "flush_bytes"), at_once)

    @property
    def per_s(self) -> float:
        return min(1000 / self.interval_ms, self.at_once * 1000 / _UPLOAD_MS)

    @property
    def why(self) -> str:
        if self.per_s < 1000 / self.interval_ms:
            return f"{self.at_once} at a time, stored in {_UPLOAD_MS:g} ms"
        return f"every {self.interval_ms} ms"

    @property
    def mb(self) -> float:
        return self.bytes / 1e6


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
    segments = load.segments_per_s * MONTH_S
    commits = MONTH_S / load.lag_s
    wal_s = load.lag_s + _default(WalSettings, "grace_period_ms") / 1000
    held = load.kept_gb * load.table_ratio + load.mb_per_s * wal_s / 1000
    store, compute = prices["store"], prices["compute"]["vcpu_hour"]
    return [
        _requests(
            "writes",
            f"{_segments(load)}, a commit every {load.lag_s:g} s of "
            f"{load.partitions} files and {_METADATA_PUTS} more",
            segments + commits * (load.partitions + _METADATA_PUTS),
            "PUT",
            store["put_per_1000"],
        ),
        _requests(
            "reads",
            f"{load.segments_per_s:,.1f} segments a second × {load.brokers}, by the compaction and "
            f"{load.brokers - 1} other brokers",
            segments * load.brokers,
            "GET",
            store["get_per_1000"],
        ),
        _gigabytes(
            "storage",
            f"{load.mb_per_s:g} MB/s × {load.days:g} days × {load.table_ratio:g} in the table, and "
            f"{wal_s:g} s of WAL",
            held,
            store["gb_month"],
        ),
        _processors(
            "brokers",
            f"{load.mb_per_s:g} MB/s × (1 + {load.readers:g} readers) ÷ {_BROKER_MB_PER_VCPU:g} "
            f"MB/s by each, at least one for each of {load.brokers}",
            max(load.brokers, load.mb_per_s * (1 + load.readers) / _BROKER_MB_PER_VCPU),
            compute,
        ),
        _processors(
            "compaction",
            f"{load.mb_per_s:g} MB/s × {_COMPACTION_CPU_S_PER_GB:g} CPU-s for each GB",
            load.mb_per_s / 1000 * _COMPACTION_CPU_S_PER_GB,
            compute,
        ),
        _database(prices["database"]["hour"]),
        _zones(load, prices["network"]["cross_zone_gb"]),
    ]


def _segments(load: Load) -> str:
    """How many segments there are in a second, and why."""
    sealed = load.sealed
    by_time = load.brokers * sealed.per_s
    if load.segments_per_s > by_time:
        each = f"{load.mb_per_s:g} MB/s ÷ {sealed.mb:.2f} MB"
        return f"{each} = {load.segments_per_s:,.1f} segments a second"
    each = f"{load.brokers} brokers × {sealed.per_s:g} a second ({sealed.why})"
    return f"at most {each} = {by_time:,.1f} segments a second"


def _database(price: float) -> Item:
    dollars = _MONTH_H * price
    return _item("metadata store", "one PostgreSQL", f"{_MONTH_H} h × ${price:g}", dollars)


def _zones(load: Load, price: float) -> Item:
    """Nothing, as long as clients stay in their zone; what it would be otherwise is said."""
    more = 2 * load.crossing_gb * price
    return Item(
        "across zones",
        0.0,
        "brokers exchange data through the bucket: 0 GB = $0, assumed that clients name their zone "
        "(zone_id= in client.id) and brokers theirs (broker.rack); otherwise 2/3 of what is sent "
        f"and read crosses, for ${more:,.0f} more",
    )


def kafka(load: Load, prices: Any) -> list[Item]:
    """Three replicas in three zones, and the same table made by a connector."""
    days = min(load.days, load.kafka_days)
    disk = load.kept_gb * days / load.days * _REPLICAS / _DISK_FULL
    crossing = load.crossing_gb + load.gb * (_REPLICAS - 1)
    flow = load.mb_per_s * (_REPLICAS + load.readers)
    brokers = max(3.0, flow / _KAFKA_MB_PER_VCPU)
    return [
        _gigabytes(
            "disks",
            f"{load.mb_per_s:g} MB/s × {days:g} days × {_REPLICAS} replicas ÷ {_DISK_FULL:g} full",
            disk,
            prices["disk"]["gb_month"],
        ),
        _gigabytes(
            "across zones",
            f"{load.gb:,.0f} GB × (2/3 sent + {_REPLICAS - 1} replicas + {load.readers:g} × 2/3 "
            "read, by readers that name no rack) × 2 sides that pay",
            2 * crossing,
            prices["network"]["cross_zone_gb"],
        ),
        _processors(
            "brokers",
            f"{load.mb_per_s:g} MB/s × ({_REPLICAS} replicas + {load.readers:g} readers) ÷ "
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


def _default(section: type[Section], name: str) -> int:
    """Of a setting."""
    value: int = section.model_fields[name].default
    return value


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
