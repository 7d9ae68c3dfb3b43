"""DIFFERENCES.md explains exactly the differences that the tests expect."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent


def expected() -> Iterator[str]:
    for file in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "differs":
                (name,) = node.args
                assert isinstance(name, ast.Constant)
                assert isinstance(name.value, str)
                yield name.value


def test_every_difference_is_explained_and_every_explanation_is_tested() -> None:
    text = (FOLDER / "DIFFERENCES.md").read_text(encoding="utf-8")
    explained = re.findall(r"^### (.+)$", text, re.MULTILINE)
    assert sorted(explained) == sorted(set(expected()))
