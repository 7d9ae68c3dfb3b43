"""Requests of any version by the names of their parts: what a version does not have is left out."""

from dataclasses import fields
from datetime import timedelta
from typing import Any, Final

import pytest
from kio.index import load_payload_module
from kio.static.constants import EntityType

from tests.support.wire import Wire

TIMEOUT: Final = {"timeout": timedelta(seconds=5)}
"""The field that requests of administration have; here they are done at once."""


def ends(api: Any) -> Any:
    """Runs a test with the lowest and the highest version of a handler."""
    return pytest.mark.parametrize("version", sorted({api.VERSIONS[0], api.VERSIONS[-1]}))


class Asking:
    """One API at one version, on one connection."""

    def __init__(self, wire: Wire, api_key: int, version: int) -> None:
        self._wire = wire
        self._key = api_key
        self._version = version
        self._module = load_payload_module(api_key, version, EntityType.request)

    def part(self, kind: str, /, **values: object) -> Any:
        """A request class of this version, top or nested."""
        made = getattr(self._module, kind)
        known = {field.name for field in fields(made)}
        return made(**{name: value for name, value in values.items() if name in known})

    async def ask(self, kind: str, /, **values: object) -> Any:
        """The answer to the request `kind`."""
        await self._wire.send(self.part(kind, **values))
        _, body = await self._wire.receive(self._key, self._version)
        return body
