import json
from pathlib import Path

import pytest

from lakestream_spark.cli.cost import MONTH_S
from lakestream_spark.cli.exits import run
from lakestream_spark.cli.group import lakestream

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
"""


def bills(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, float]]:
    assert run(lakestream, ["cost", "--json", *words]) == 0
    told = json.loads(capsys.readouterr().out)
    return {who: {item["what"]: item["dollars"] for item in bill} for who, bill in told.items()}


def test_the_arithmetic_is_what_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    shape = ("--rate", "1", "--partitions", "6", "--brokers", "1", "--lag", "10", "--days", "1")
    found = bills(capsys, "--prices", str(prices), *shape)
    puts = 4 * MONTH_S + MONTH_S / 10 * (6 + 4)
    assert found["lakestream"]["writes"] == pytest.approx(puts / 1000)
    assert found["Kafka on disks"]["disks"] == pytest.approx(86.4 * 3 / 0.6)


def test_a_longer_lag_costs_less_and_a_fast_profile_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    usual = bills(capsys)["lakestream"]["writes"]
    assert bills(capsys, "--lag", "600")["lakestream"]["writes"] < usual
    assert bills(capsys, "--profile", "latency")["lakestream"]["writes"] > usual


def test_people_see_both_bills_with_their_sums(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(lakestream, ["cost", "--rate", "50"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("together") == 2
    assert "M PUT" in shown


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[store", "the prices are not TOML"),
        ("[store]\nput_per_1000 = 1", "the prices lack the number store.get_per_1000"),
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
