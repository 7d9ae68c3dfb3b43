"""Putting the tree together: flags over environment over file over what follows from `data`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.settings.derived import derived_values
from lakestream_spark.settings.document import shown
from lakestream_spark.settings.sources import CONF_VARIABLE, Entry, from_environment, from_file
from lakestream_spark.settings.tree import KEYS, SECTIONS, Settings, is_secret

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The settings, and for every key that was given the place it came from."""

    settings: Settings
    origins: Mapping[str, str]

    def value(self, key: str) -> object:
        """The value of a dotted key."""
        found: object = self.settings
        for name in key.split("."):
            found = getattr(found, name)
        return found


class _EntrySource(PydanticBaseSettingsSource):
    """The entries of one place, as a source of pydantic-settings."""

    def __init__(self, settings_cls: type[BaseSettings], entries: Iterable[Entry]) -> None:
        super().__init__(settings_cls)
        self._tree = _as_tree((entry.key, entry.value) for entry in entries)

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002
        return self._tree.get(field_name), field_name, False

    def __call__(self) -> Tree:
        return self._tree


class _DerivedSource(_EntrySource):
    """What follows from the values given: the weakest source, so it sees all the others."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls, ())

    def __call__(self) -> Tree:
        # Every section is there, so that what is missing is named by its key.
        sections: Tree = {path: {} for path in SECTIONS if "." not in path}
        return sections | _as_tree(derived_values(self.current_state).items())


def load(
    *, environ: Mapping[str, str], flags: Iterable[Entry] = (), conf: Path | None = None
) -> Loaded:
    """Read every source, check every key, build the tree; raises `Misconfigured` in sentences."""
    given = list(flags)
    variables = list(from_environment(environ))
    conf = conf or (Path(environ[CONF_VARIABLE]) if environ.get(CONF_VARIABLE) else None)
    lines = list(from_file(conf)) if conf else []
    layers = [given, variables, lines]
    _check_keys(entry for layer in layers for entry in layer)
    # Weakest first, so that the strongest origin is the one that stays.
    winners = {entry.key: entry for layer in reversed(layers) for entry in layer}
    if "data" in winners:
        _check_data(winners["data"])
    sources: list[Callable[[type[BaseSettings]], PydanticBaseSettingsSource]] = [
        *(partial(_EntrySource, entries=layer) for layer in layers),
        _DerivedSource,
    ]
    build: Callable[..., Settings] = Settings
    try:
        settings = build(sources=sources)
    except ValidationError as error:
        raise Misconfigured("\n".join(_sentences(error, winners))) from None
    return Loaded(settings=settings, origins={k: e.origin for k, e in winners.items()})


def _check_keys(entries: Iterable[Entry]) -> None:
    wrong = [_unknown(entry) for entry in entries if entry.key not in KEYS]
    if wrong:
        raise Misconfigured("\n".join(wrong))


def _check_data(entry: Entry) -> None:
    data = str(entry.value)
    if not data:
        raise Misconfigured(f"{entry.origin} is empty: name a folder, or the URL of a bucket")
    scheme, separator, _ = data.partition("://")
    if not separator:
        return
    # Here and not above: a folder needs no client of a cloud.
    from lakestream_spark.objectstore.open import SCHEMES

    if scheme not in SCHEMES:
        valid = ", ".join(f"{each}://" for each in SCHEMES)
        raise Misconfigured(
            f"{entry.origin}: {data!r} is neither a folder nor the URL of a store, which begins "
            f"with one of {valid}"
        )


def _unknown(entry: Entry) -> str:
    if entry.key in SECTIONS:
        return f"{entry.origin}: {entry.key!r} is a section of settings, not a setting"
    near = get_close_matches(entry.key, KEYS, n=1, cutoff=0.5)
    hint = (
        f"did you mean {entry.spell(near[0])!r}?"
        if near
        else "`lakestream config docs` lists them all"
    )
    return f"{entry.origin}: there is no setting {entry.spell(entry.key)!r}; {hint}"


def _sentences(error: ValidationError, winners: Mapping[str, Entry]) -> Iterable[str]:
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        path = [str(part) for part in problem["loc"]]
        key = next(
            (k for k in (".".join(path[:n]) for n in (3, 2, 1)) if k in KEYS), ".".join(path)
        )
        entry = winners.get(key)
        if entry is None:
            yield f"the setting {key!r} is needed: {_why_needed(key)}"
        else:
            value = "(hidden)" if is_secret(key) else shown(entry.value)
            yield f"{entry.origin}: {key} = {value} is not valid: {problem['msg']}"


def _why_needed(key: str) -> str:
    return f"it follows from `data` only while `data` is a folder; {KEYS[key].field.description}"


def _as_tree(values: Iterable[tuple[str, object]]) -> Tree:
    tree: Tree = {}
    for key, value in values:
        *sections, name = key.split(".")
        table = tree
        for section in sections:
            table = table.setdefault(section, {})
        table[name] = value
    return tree
