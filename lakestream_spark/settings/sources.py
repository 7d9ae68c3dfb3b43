"""Where values come from: flags, environment, TOML file. Each value keeps its place of origin."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.settings.tree import KEYS, SECTIONS

PREFIX = "LAKESTREAM_"
CONF_VARIABLE = "LAKESTREAM_CONF"
_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_ASSIGNMENT = re.compile(r"""\s*([\w."' -]+?)\s*=""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One value as it was given: the key, the value and the place a person can look at."""

    key: str
    value: object
    origin: str
    as_variable: bool = False

    def spell(self, key: str) -> str:
        """Another key, written the way this source writes keys."""
        return variable(key) if self.as_variable else key


def variable(key: str) -> str:
    """The environment variable of a key: `broker.port` is `LAKESTREAM_BROKER__PORT`."""
    return PREFIX + key.replace(".", "__").upper()


def from_environment(environ: Mapping[str, str]) -> Iterator[Entry]:
    """Variables with our prefix. `…_FILE` names a file that holds the value, for secrets."""
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name == CONF_VARIABLE or environ[name] == "":
            continue
        key, value = name.removeprefix(PREFIX).lower().replace("__", "."), environ[name]
        if key not in KEYS and key.removesuffix("_file") in KEYS:
            key = key.removesuffix("_file")
            if environ.get(variable(key)):
                raise Misconfigured(f"both {variable(key)} and {name} are set; keep one of them")
            value = _file_content(name, Path(value))
        yield Entry(key=key, value=value, origin=name, as_variable=True)


def _file_content(name: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{name} names a file that cannot be read: {error}") from error


def from_file(path: Path) -> Iterator[Entry]:
    """The values of a TOML file. An empty string means: not set here."""
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"the settings file cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(f"{path} is not valid TOML: {error}") from error
    for key, value in _flatten(document):
        if value != "":
            yield Entry(key=key, value=value, origin=f"{path}:{line_of(text, key)}")


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        key = prefix + name
        # An empty table is a section without changes, or a section that does not exist.
        if isinstance(value, dict) and key not in KEYS and (value or key in SECTIONS):
            yield from _flatten(value, f"{key}.")
        else:
            yield key, value


def line_of(text: str, key: str) -> int:
    """The line of a TOML text that sets `key`, as a person would find it; 1 if in doubt."""
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.match(line):
            table = _plain(header[1]) + "."
            if table == f"{key}.":
                return number
        elif (found := _ASSIGNMENT.match(line)) and f"{table}{_plain(found[1])}." == f"{key}.":
            return number
    return 1


def _plain(dotted: str) -> str:
    return ".".join(part.strip(" \"'") for part in dotted.split("."))
