"""Bytes of clients as people read them."""

import pytest

from lakestream_spark.console.shown import name, shown


def test_null_and_empty_stay_apart() -> None:
    assert shown(None) is None
    assert shown(b"") == {"size": 0, "text": "", "json": None, "hex": "", "cut": False}


def test_json_is_indented_and_its_numbers_keep_their_digits() -> None:
    found = shown(b'{"a": 12345678901234567890, "b": ["\xc3\xa4"]}')
    assert found is not None
    assert found["json"] == '{\n  "a": 12345678901234567890,\n  "b": [\n    "ä"\n  ]\n}'


@pytest.mark.parametrize(
    "data", [b"{", b"[" * 100_000, b"[" + b"9" * 10_000 + b"]", b'"text"', b"7"]
)
def test_what_is_no_json_document_is_text(data: bytes) -> None:
    found = shown(data)
    assert found is not None
    assert found["json"] is None
    assert data.decode().startswith(found["text"])


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a\0b", b"\x1b[31m", b"\xc3"])
def test_what_is_no_text_is_hex(data: bytes) -> None:
    found = shown(data)
    assert found is not None
    assert (found["text"], found["hex"]) == (None, data.hex(" "))


def test_of_large_values_the_beginning_is_shown() -> None:
    text = shown("ä".encode() * 50_000 + b"x")
    assert text is not None
    assert text["cut"]
    assert text["text"] == "ä" * (64 * 1024 // 2)
    binary = shown(b"\xff" * 10_000)
    assert binary is not None
    assert binary["cut"]
    assert (binary["size"], len(binary["hex"])) == (10_000, 3 * 4096 - 1)


def test_the_cut_never_goes_through_a_character() -> None:
    found = shown(b"x" + "ä".encode() * 50_000)
    assert found is not None
    assert found["text"] == "x" + "ä" * (64 * 1024 // 2 - 1)


def test_a_header_key_that_is_no_utf8_is_told_apart() -> None:
    assert name(b"caf\xc3\xa9") == "café"
    assert name(b"caf\xe9") == "caf\\xe9"
