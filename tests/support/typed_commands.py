"""The commands there are, and those that tests type on a running platform, found in their source.

What counts as typed: what a test gives to a shell that must succeed, a row of words for a test that
has the fixture `shell`, and a command of the README that its own test runs. What a test types only
to see it refused does not count.
"""

import ast
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final

import click

from lakestream_spark.cli.group import lakestream
from tests.support.readme import blocks, is_elsewhere, words

Words = tuple[str, ...]

_TESTS: Final = Path(__file__).parents[1] / "integration"
_TYPISTS: Final = {"shell", "own", "run", "json", "lakestream", "terminal", "submit"}
_PROCESS: Final = "ingress"
"""Of tests.support.ingress_process: `ingress`, or the command that `name` names."""
_MODULE: Final = "lakestream_spark"
_PROGRAM: Final = "lakestream"


def commands(
    command: click.Command = lakestream, path: Words = ()
) -> Iterator[tuple[Words, click.Command]]:
    """Every command that does something, by the words that call it."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands(found, (*path, name))


@cache
def typed() -> frozenset[Words]:
    """The first word and the first two words of all that is typed."""
    lines = {*_in_readme(), *(line for path in _TESTS.rglob("*.py") for line in _in_test(path))}
    return frozenset(line[:length] for line in lines for length in (1, 2))


def reaches(function: Callable[..., Any], target: Callable[..., Any]) -> bool:
    """Whether a function, or one of the command line that it names, names the target."""
    seen: set[FunctionType] = set()
    left = [inspect.unwrap(function)]
    while left:
        each = left.pop()
        if each is target:
            return True
        if isinstance(each, FunctionType) and each not in seen and _is_of_cli(each):
            seen.add(each)
            left += [each.__globals__[n] for n in _names(each.__code__) if n in each.__globals__]
    return False


def _is_of_cli(function: FunctionType) -> bool:
    return function.__module__.startswith("lakestream_spark.cli.")


def _names(code: CodeType) -> set[str]:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return {*code.co_names}.union(*map(_names, inner))


def _in_readme() -> Iterator[Words]:
    for block in blocks():
        for command in block.commands if block.language == "sh" else []:
            program, *rest = words(command)
            if program == _PROGRAM and not is_elsewhere(command):
                yield tuple(rest)


def _in_test(path: Path) -> Iterator[Words]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call():
                yield from _in_call(node)
            case ast.List() if line := _after_module(node.elts):
                yield line
            case ast.FunctionDef() if any(each.arg == "shell" for each in node.args.args):
                yield from _in_rows(node)


def _in_call(call: ast.Call) -> Iterator[Words]:
    named = {each.arg: each.value for each in call.keywords}
    name = _called(call.func)
    if name == _PROCESS:
        yield _texts([named.get("name", ast.Constant(_PROCESS))])
    elif name in _TYPISTS and "code" not in named:
        # A pool is given the shell, then the words.
        yield _after_module(call.args) or _texts(call.args) or _texts(call.args[1:])


def _in_rows(test: ast.FunctionDef) -> Iterator[Words]:
    for decorator in test.decorator_list:
        for node in ast.walk(decorator):
            if isinstance(node, ast.List):
                yield from (_texts(row.elts) for row in node.elts if isinstance(row, ast.Tuple))


def _after_module(nodes: Sequence[ast.expr]) -> Words:
    """What follows `-m lakestream_spark`."""
    places = [n for n, each in enumerate(nodes) if _text(each) == _MODULE]
    return _texts(nodes[places[0] + 1 :]) if places else ()


def _texts(nodes: Sequence[ast.expr]) -> Words:
    """Those at the beginning, up to what is no plain text."""
    found: list[str] = []
    for node in nodes:
        text = _text(node)
        if text is None:
            break
        found.append(text)
    return tuple(found)


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _called(func: ast.expr) -> str:
    match func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""
