"""pyiceberg's REST catalog that waits for an answer for a bounded time, not for ever."""

from functools import partial
from typing import Final

from pyiceberg.catalog.rest import RestCatalog
from requests import Session

ANSWER_WITHIN_S: Final = 60.0


class BoundedRestCatalog(RestCatalog):
    """A server that hangs is an outage like any other: the caller reloads and looks."""

    def _create_session(self) -> Session:
        session = super()._create_session()
        bounded = partial(session.request, timeout=ANSWER_WITHIN_S)
        session.request = bounded  # type: ignore[method-assign]
        return session
