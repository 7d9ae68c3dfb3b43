import json
import re
from math import prod
from pathlib import Path

import pytest

from lakestream_spark.cli.cost import DEFAULT_PRICES, MONTH_S
from lakestream_spark.cli.exits import run
from lakestream_spark.cli.group import lakestream
from lakestream_spark.settings import load

PRICES = """
[store]
put_per_1000 = 1
get_per_1000 = 0
gb_month = 0
[disk]
gb_month = 1
[network]
cross_zone_gb = 0
[compute]
vcpu_hour = 0
[database]
hour = 2
"""


def bills(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, float]]:
    assert run(lakestream, ["cost", "--json", *words]) == 0
    told = json.loads(capsys.readouterr().out)
    assert Path(told.pop("prices")).is_file()
    return {who: {item["what"]: item["dollars"] for item in bill} for who, bill in told.items()}


def test_the_arithmetic_is_what_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    shape = ("--rate", "1", "--partitions", "6", "--brokers", "1", "--lag", "10", "--days", "1")
    found = bills(capsys, "--prices", str(prices), *shape)
    puts = 4 * MONTH_S + MONTH_S / 10 * (6 + 4)
    assert found["lakestream"]["writes"] == pytest.approx(puts / 1000)
    assert found["lakestream"]["metadata store"] == pytest.approx(2 * 730)
    assert found["Kafka on disks"]["disks"] == pytest.approx(86.4 * 3 / 0.6)


def test_a_longer_lag_costs_less_and_a_fast_profile_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    usual = bills(capsys)["lakestream"]["writes"]
    assert bills(capsys, "--lag", "600")["lakestream"]["writes"] < usual
    assert bills(capsys, "--profile", "latency")["lakestream"]["writes"] > usual


def arithmetic(capsys: pytest.CaptureFixture[str], what: str, *words: str) -> str:
    assert run(lakestream, ["cost", "--json", *words]) == 0
    (own,) = [i for i in json.loads(capsys.readouterr().out)["lakestream"] if i["what"] == what]
    return str(own["arithmetic"])


@pytest.mark.parametrize("profile", ["cost", "latency"])
def test_segments_are_sealed_as_the_settings_say(
    capsys: pytest.CaptureFixture[str], profile: str
) -> None:
    known = load(environ={}, flags=[]).settings.wal
    own = known.cost if profile == "cost" else known.latency
    told = arithmetic(capsys, "writes", "--profile", profile, "--brokers", "3")
    every = f"3 brokers × {1000 / known.cost.flush_interval_ms:g} a second (every 250 ms) = 12.0"
    # As quick as every 2 ms they would be if each were stored in less than 4 ms.
    ahead = "3 brokers × 200 a second (2 at a time, stored in 10 ms) = 600.0"
    each = every if profile == "cost" else ahead
    assert told.startswith(f"at most {each} segments a second, ")
    large = ("--rate", "10000", "--brokers", "1")
    filled = f"10000 MB/s ÷ {own.flush_bytes / 1e6:.2f} MB = "
    assert arithmetic(capsys, "writes", "--profile", profile, *large).startswith(filled)


def test_what_is_assumed_of_zones_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    told = arithmetic(capsys, "across zones", "--rate", "10", "--readers", "2")
    assert "assumed that clients name their zone (zone_id= in client.id)" in told
    # 26,280 GB are sent and read twice, 2/3 of that crosses, and both sides pay $0.01.
    assert told.endswith("otherwise 2/3 of what is sent and read crosses, for $1,051 more")


def test_people_see_both_bills_with_their_sums(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(lakestream, ["cost", "--rate", "50"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("together") == 2
    assert (
        f"Prices in US dollars from {DEFAULT_PRICES} (list prices; --prices takes your own)."
        in shown
    )


def test_each_line_is_a_product_with_the_price_of_a_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(
        DEFAULT_PRICES.read_text().replace("put_per_1000 = 0.005", "put_per_1000 = 0.006")
    )
    assert run(lakestream, ["cost", "--prices", str(prices)]) == 0
    shown = capsys.readouterr().out
    assert "12 files and 4 more: 32.2 M PUT × $0.006 per 1,000 = $193" in shown
    assert "GET × $0.0004 per 1,000 = $" in shown
    assert "3.00 vCPU × 730 h × $0.048 = $105" in shown
    assert "GB × $0.023 = $" in shown
    assert f"from {prices} (yours)" in shown


def test_every_product_comes_to_its_line_of_the_bill(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(lakestream, ["cost", "--json", "--rate", "500"]) == 0
    told = json.loads(capsys.readouterr().out)
    told.pop("prices")
    for item in [each for bill in told.values() for each in bill if "×" in each["arithmetic"]]:
        product, _, sum_ = item["arithmetic"].rpartition(": ")[2].partition(" = $")
        assert sum_ == f"{item['dollars']:,.0f}"
        numbers = [float(n.replace(",", "")) for n in re.findall(r"[0-9][0-9,.]*", product)]
        count = numbers[0] * 1000 if " M " in product else numbers[0]
        factors = [n for n in numbers[1:] if n != 1000 or " M " not in product]
        assert count * prod(factors) == pytest.approx(item["dollars"], rel=0.02), product


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[store", "the prices are not TOML"),
        ("[store]\nput_per_1000 = 1", "the prices lack the number store.get_per_1000"),
        ("store = 5", "the prices lack the number store.put_per_1000"),
        (PRICES.replace("= 1", "= true"), "the prices lack the number store.put_per_1000"),
        (PRICES.replace("= 1", "= -1"), "the price store.put_per_1000 is -1, below 0 or endless"),
        (PRICES.replace("= 1", "= nan"), "the price store.put_per_1000 is nan, below 0 or endless"),
        (None, "the prices cannot be read"),
    ],
)
def test_bad_prices_get_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, sentence: str
) -> None:
    prices = tmp_path / "prices.toml"
    if text is not None:
        prices.write_text(text)
    assert run(lakestream, ["cost", "--prices", str(prices)]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--rate", "-1"), "'--rate': -1 is not above 0"),
        (("--kafka-days", "0"), "'--kafka-days': 0 is not above 0"),
        (("--lag", "nan"), "'--lag': nan is not a number to count with"),
        (("--rate", "inf"), "'--rate': inf is not a number to count with"),
        (("--rate", "much"), "'--rate': 'much' is not a number"),
        (("--rate", "1e308"), "the sums are beyond all numbers"),
        (("--lag", "1e-320"), "the sums are beyond all numbers"),
        (("--partitions", "9" * 400), "is not in the range"),
    ],
)
def test_numbers_that_cannot_be_are_refused_by_their_option(
    capsys: pytest.CaptureFixture[str], words: tuple[str, str], sentence: str
) -> None:
    assert run(lakestream, ["cost", "--json", *words]) == 2
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.out == ""


def test_a_rate_of_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(lakestream, ["cost", "--rate", "0"]) == 2
    assert "is not above 0" in capsys.readouterr().err
