"""The README as a whole: every block is run by some test, and what it names exists."""

import ast
import re
from functools import cache

import pytest

from lakestream_spark.cli.demo.story import CHAPTERS
from lakestream_spark.cli.exits import EXIT_CODES
from lakestream_spark.cli.group import COMMANDS
from lakestream_spark.core import metrics
from lakestream_spark.metadata.topic_config import SETTINGS
from lakestream_spark.settings.tree import KEYS
from tests.support.guide import ROOT, check_printed
from tests.support.readme import ELSEWHERE, README, RUN_BY, Block, blocks, is_elsewhere, words

TEXT = README.read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", TEXT, flags=re.DOTALL | re.MULTILINE)
INLINE = re.findall(r"(?<!`)`([^`]+)`(?!`)", PROSE)


@cache
def functions_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


@pytest.mark.parametrize("block", blocks(), ids=lambda block: f"line-{block.line}")
def test_every_block_is_run(block: Block) -> None:
    if block.heading not in RUN_BY:
        assert block.language == "sh"
        left = [command for command in block.commands if not is_elsewhere(command)]
        assert left == [], f"no test runs this: name one in RUN_BY for {block.heading!r}"


def test_the_lists_name_nothing_that_is_not_there() -> None:
    assert set(RUN_BY) <= {block.heading for block in blocks()}
    typed = {
        " ".join(words(command))
        for block in blocks()
        if block.language == "sh"
        for command in block.commands
    }
    assert set(ELSEWHERE) <= typed


@pytest.mark.parametrize("test", sorted({*RUN_BY.values(), *ELSEWHERE.values()}))
def test_a_test_that_runs_blocks_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert name in functions_in(path)


def anchors() -> set[str]:
    titles = re.findall(r"^#{1,3} (.+)$", TEXT, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


# `make bench` writes the report, which may be still to come.
LINKS = set(re.findall(r"\]\(([^)]+)\)", PROSE)) - {"tests/benchmarks/REPORT.md"}


@pytest.mark.parametrize("link", sorted(LINKS))
def test_a_link_leads_somewhere(link: str) -> None:
    assert link.removeprefix("#") in anchors() if link.startswith("#") else (ROOT / link).exists()


def test_every_section_is_in_the_contents() -> None:
    contents = TEXT.partition("\n## ")[0]
    linked = re.findall(r"\(#([\w-]+)\)", contents)
    sections = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    made = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in sections]
    assert linked == made


def test_commands_and_targets_in_the_text_exist() -> None:
    named = {
        words[1] for text in INLINE if (words := text.split())[0] == "lakestream" and words[1:]
    }
    assert {each for each in named if not each.startswith("-")} <= set(COMMANDS)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert {text.split()[1] for text in INLINE if text.startswith("make ")} <= targets


def test_settings_in_the_text_exist() -> None:
    sections = {key.partition(".")[0] for key in KEYS if "." in key}
    named = {text for text in INLINE if re.fullmatch(r"[a-z]+(\.[a-z_]+)+", text)}
    files = {text for text in named if text.endswith((".db", ".py"))}
    assert {each for each in named - files if each.partition(".")[0] in sections} <= set(KEYS)


def test_metrics_in_the_text_exist() -> None:
    named = {text for text in INLINE if re.fullmatch(r"lakestream_(?!spark\b)[a-z_]+[a-z]", text)}
    assert named
    assert named <= set(metrics.NAMES)


def test_the_story_of_make_run_has_its_chapters() -> None:
    story = TEXT.partition("```text\n")[2].partition("```")[0]
    assert [line.split()[0] for line in story.splitlines()] == list(CHAPTERS)


def rows(first: str) -> list[tuple[str, str]]:
    """The first two columns of the table whose head begins with this."""
    table = TEXT.partition(f"\n| {first} |")[2].partition("\n\n")[0]
    cells = [line.strip("| ").split("|") for line in table.splitlines()[2:]]
    return [(cell[0].strip(), cell[1].strip()) for cell in cells]


def test_the_exit_codes_are_those_of_the_program() -> None:
    assert {int(code): means for code, means in rows("code")} == EXIT_CODES


def test_the_settings_of_a_topic_are_told_with_their_defaults() -> None:
    told = {
        name: default.strip("`")
        for names, default in rows("setting of a topic")
        for name in re.findall(r"`([^`]+)`", names)
    }
    assert told == {name: SETTINGS[name].default for name in told}
    assert {name for name in SETTINGS if name.startswith("lakestream.")} <= set(told)


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("orders  12 s\n", "orders 3.5 s"),
        ("a\nb 7\nc\nd\n", "a\n...\nd"),
        ("at s3://bucket/x\n", "at …/x"),
        ("id 48f5fade-c369-41f8-a4c4-21e0945c5b2b\n\n", "id 141a4559-7924-4b1e-abdd-7f64a600c383"),
        ("|   7|\n+----+\n", "|7|\n+-+"),
    ],
)
def test_what_is_printed_may_differ_in_numbers_and_spaces(printed: str, shown: str) -> None:
    check_printed(printed, shown, where="here")


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("orders well\n", "orders red"),
        ("a\nb\n", "a"),
        ("a\n", "a\nb"),
        ("", "a"),
        ("a b\n", "a …c"),
    ],
)
def test_what_is_printed_otherwise_is_noticed(printed: str, shown: str) -> None:
    with pytest.raises(AssertionError):
        check_printed(printed, shown, where="here")
