"""The settings of a command, as Python is given the same ones.

`lakestream_spark.session` and `read` take `data` and `conf`; what came by another flag or by the
environment is a variable of the environment there. What always holds: no secret is shown; what
lies in a file stays in it, and the file is named by its whole path.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from lakestream_spark.cli.secrecy import DOTS, without_password, without_secrets
from lakestream_spark.settings import Loaded, Settings
from lakestream_spark.settings.sources import CONF_VARIABLE, PREFIX, variable

_NEEDED: Final = ("metadata.", "store.", "catalog.", "wal.latency.url")
"""The settings that say where records are."""
_FLAG: Final = "--"
_FILE: Final = "_FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonSettings:
    """What a program says to read what the command read."""

    arguments: Mapping[str, str]
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def imports(self) -> list[str]:
        return [*(["import os", ""] if self.variables else []), "import lakestream_spark"]

    @property
    def assignments(self) -> list[str]:
        return [f"os.environ[{_text(k)}] = {_text(v)}" for k, v in self.variables.items()]

    @property
    def given(self) -> str:
        """The arguments of a call."""
        return ", ".join(f"{name}={_text(value)}" for name, value in self.arguments.items())


def embedded(settings: Settings) -> PythonSettings:
    """All that a platform in one folder needs."""
    return PythonSettings(arguments={"data": _absolute(settings.data)})


def python_settings(
    loaded: Loaded, conf: Path | None, environ: Mapping[str, str]
) -> PythonSettings:
    """What makes the same settings again, whichever folder Python is started in."""
    file = conf or environ.get(CONF_VARIABLE)
    data = {} if _is_filed(loaded, "data") else {"data": _absolute(loaded.settings.data)}
    return PythonSettings(
        arguments={**data, **({"conf": str(Path(file).resolve())} if file else {})},
        variables=dict(
            _variable(loaded, key, environ)
            for key in loaded.origins
            if key.startswith(_NEEDED) and not _is_filed(loaded, key)
        ),
    )


def _is_filed(loaded: Loaded, key: str) -> bool:
    origin = loaded.origins.get(key, _FLAG)
    return not origin.startswith((_FLAG, PREFIX))


def _variable(loaded: Loaded, key: str, environ: Mapping[str, str]) -> tuple[str, str]:
    origin = loaded.origins[key]
    if origin.endswith(_FILE) and origin in environ:
        return origin, str(Path(environ[origin]).resolve())
    return variable(key), _shown(loaded.value(key))


def _shown(value: object) -> str:
    if isinstance(value, SecretStr):
        return DOTS
    if isinstance(value, Mapping):
        return json.dumps(without_secrets(value))
    return str(value).lower() if isinstance(value, bool) else without_password(str(value))


def _absolute(data: str) -> str:
    return data if "://" in data else str(Path(data).expanduser().resolve())


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
