"""What a client sends as a topic's settings: taken whole or refused with the reason."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from lakestream_spark.core.errors import InvalidConfig
from lakestream_spark.metadata.topic_config.kafka import ACCEPTED, ACTING
from lakestream_spark.metadata.topic_config.kinds import Setting
from lakestream_spark.metadata.topic_config.lakestream import OURS, PREFIX

SETTINGS: Final[Mapping[str, Setting]] = {
    setting.name: setting
    for setting in sorted((*ACTING, *ACCEPTED, *OURS), key=lambda setting: setting.name)
}
"""Every topic setting by its name, in the order of the names."""

MAX_VALUE_CHARS: Final = 64 * 1024
_SHOWN_CHARS: Final = 100
_SMALLEST_LAG: Final = "min.compaction.lag.ms"
_LARGEST_LAG: Final = "max.compaction.lag.ms"


def check_config(config: Mapping[str, str | None]) -> dict[str, str]:
    """The settings as they are to be stored; raises `InvalidConfig` for the first wrong one."""
    checked = {name: _check(name, value) for name, value in config.items()}
    smallest, largest = (
        int(checked.get(name, SETTINGS[name].default)) for name in (_SMALLEST_LAG, _LARGEST_LAG)
    )
    if smallest > largest:
        raise InvalidConfig(
            f"{_SMALLEST_LAG} ({smallest}) is above {_LARGEST_LAG} ({largest}); it cannot be"
        )
    return checked


def find_setting(name: str) -> Setting:
    """The setting of that name; raises `InvalidConfig` with the nearest one."""
    setting = SETTINGS.get(name)
    if setting is None:
        # Ours are easily written without their prefix.
        near = (
            [PREFIX + name] if PREFIX + name in SETTINGS else get_close_matches(name, SETTINGS, 1)
        )
        all_ = "`lakestream topic settings` lists them all, and so does DescribeConfigs"
        hint = f"did you mean {near[0]!r}?" if near else all_
        raise InvalidConfig(f"there is no topic setting {name[:_SHOWN_CHARS]!r}; {hint}")
    return setting


def _check(name: str, value: str | None) -> str:
    setting = find_setting(name)
    if value is None:
        raise InvalidConfig(f"{name} needs a value; it takes {setting.takes.allowed}")
    try:
        if len(value) > MAX_VALUE_CHARS:
            raise ValueError(value)
        setting.takes.read(value)
    except ValueError:
        shown = value if len(value) <= _SHOWN_CHARS else f"{value[:_SHOWN_CHARS]}…"
        raise InvalidConfig(
            f"{name} cannot be {shown!r}; it takes {setting.takes.allowed}"
        ) from None
    return value
