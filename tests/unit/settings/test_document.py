"""The generated settings file, and what a person may see of a value."""

import re
import tomllib
from pathlib import Path

import pytest
from pydantic import SecretStr

from lakestream_spark.settings import load
from lakestream_spark.settings.derived import RULES
from lakestream_spark.settings.document import shown, toml_document
from lakestream_spark.settings.sources import line_of, variable
from lakestream_spark.settings.tree import KEYS, Section

ROOT = Path(__file__).parents[3]


def test_conf_is_what_the_tree_says():
    stored = (ROOT / "conf" / "lakestream.toml").read_text()
    assert stored == toml_document(), "stale: run `make conf`"


def test_the_file_as_it_stands_changes_nothing():
    assert load(environ={}, conf=ROOT / "conf" / "lakestream.toml").origins == {}


def test_the_file_with_every_key_uncommented_equals_the_defaults(tmp_path):
    file = tmp_path / "all.toml"
    file.write_text(re.sub(r"^# (\w+ = )", r"\1", toml_document(), flags=re.MULTILINE))
    loaded = load(environ={}, conf=file)
    assert loaded.settings == load(environ={}).settings
    given = set(loaded.origins)
    assert given == {key for key in KEYS if KEYS[key].field.default not in ("", None)} - set(RULES)


@pytest.mark.parametrize("key", KEYS)
def test_every_key_has_a_doc_a_variable_and_a_line(key):
    assert KEYS[key].field.description
    assert f"# Variable: {variable(key)}\n" in toml_document()


def test_every_key_without_a_default_is_derived():
    required = {path for path, key in KEYS.items() if key.field.is_required()}
    assert required == set(RULES)


def test_every_section_has_a_doc():
    sections = {key.section for key in KEYS.values() if issubclass(key.section, Section)}
    assert all(section.__doc__ for section in sections)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "(not set)"),
        (SecretStr("s3cret"), "(hidden)"),
        ({}, "(none)"),
        ({"token": "s3cret", "a": "s3cret"}, "(hidden: a, token)"),
        ("postgresql://me:s3cret@host/db", "postgresql://me:(hidden)@host/db"),
        ("postgresql://me:s3@c/ret@host/db", "postgresql://me:(hidden)@host/db"),
        ("postgresql://h/db?password=s3cret&x=1", "postgresql://h/db?password=(hidden)&x=1"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("sqlite:////a/b.db", "sqlite:////a/b.db"),
        (250, "250"),
    ],
)
def test_what_is_shown_holds_no_secret(value, text):
    assert shown(value) == text


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("data = 'x'", "data", 1),
        ("\n[wal.cost]\nflush_bytes = 1", "wal.cost.flush_bytes", 3),
        ("[wal]\ncost.flush_bytes = 1", "wal.cost.flush_bytes", 2),
        ("[ wal . cost ] # words\n'flush_bytes'=1", "wal.cost.flush_bytes", 2),
        ("[catalog]\nname = 'a'\n[catalog.properties]\n'x.y' = 1", "catalog.properties", 3),
        ("[broker]\nport = 1\n[other]\nport = 2", "other.port", 4),
        ("broker = { port = 1 }", "broker.port", 1),
    ],
)
def test_the_line_of_a_key_is_where_a_person_would_look(text, key, line):
    tomllib.loads(text)
    assert line_of(text, key) == line
