"""Escapes as they are typed."""

import pytest

from lakestream_spark.cli.escapes import unescaped


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("", b""),
        (":", b":"),
        (r"a\tb\nc\rd\0e", b"a\tb\nc\rd\0e"),
        (r"\\n", b"\\n"),
        (r"\x1f\xFFx", b"\x1f\xffx"),
        (r"\x4", b"x4"),
        (r"\:", b":"),
        ("\\", b"\\"),
        ("→", "→".encode()),
    ],
)
def test_an_escape_stands_for_its_byte(typed: str, meant: bytes) -> None:
    assert unescaped(typed) == meant
