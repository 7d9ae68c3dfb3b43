"""Who may see the status page."""

from base64 import b64encode

import pytest

from lakestream_spark.console.access import Access, Verdict

TOKEN = "correct-horse-battery"
LOCAL = Access(host="127.0.0.1")
OPEN = Access(host="0.0.0.0", token=TOKEN)


def basic(text: str) -> str:
    return "Basic " + b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8092", "localhost", "LOCALHOST:1", "[::1]:8092", "127.8.8.8"]
)
def test_a_loopback_port_answers_to_loopback_names(host: str) -> None:
    assert LOCAL.judge(host, None) is Verdict.WELCOME


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8092", "localhost.evil.example", "10.0.0.1", "", "::1", "[::2]"],
)
def test_a_name_that_was_bound_to_loopback_by_others_is_refused(host: str) -> None:
    assert LOCAL.judge(host, None) is Verdict.OTHER_NAME


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "broker.example"])
def test_elsewhere_there_is_no_page_without_a_token(host: str) -> None:
    assert Access(host=host).judge("localhost", None) is Verdict.OFF


@pytest.mark.parametrize("given", [f"Bearer {TOKEN}", f"bearer  {TOKEN}", basic(f"me:{TOKEN}")])
def test_who_knows_the_token_is_welcome_under_any_name(given: str) -> None:
    assert OPEN.judge("broker.example", given) is Verdict.WELCOME


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (None, Verdict.NO_TOKEN),
        ("", Verdict.NO_TOKEN),
        (f"Digest {TOKEN}", Verdict.NO_TOKEN),
        ("Basic !!!", Verdict.NO_TOKEN),
        ("Basic ü", Verdict.NO_TOKEN),
        (basic(TOKEN), Verdict.NO_TOKEN),
        ("Bearer ", Verdict.WRONG_TOKEN),
        (f"Bearer {TOKEN}x", Verdict.WRONG_TOKEN),
        ("Bearer \udce4", Verdict.WRONG_TOKEN),
        (basic(f"{TOKEN}:"), Verdict.WRONG_TOKEN),
    ],
)
def test_who_does_not_know_it_is_not(given: str | None, verdict: Verdict) -> None:
    assert OPEN.judge("localhost", given) is verdict
    assert Access(host="127.0.0.1", token=TOKEN).judge("localhost", given) is verdict


def test_the_token_is_in_no_repr() -> None:
    assert TOKEN not in repr(OPEN)
