"""The page over HTTP: who may ask, what answers, and the headers of every answer.

What always holds: every answer forbids the browser to run or load anything from elsewhere; no
answer is kept by anybody on the way; a broker that does not serve says so.
"""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.resources import files
from typing import Any, Final, NamedTuple

from aiohttp import web

from lakestream_spark.console.access import Access, Verdict
from lakestream_spark.console.parts import Parts
from lakestream_spark.console.records import RecordBrowser, Toward
from lakestream_spark.console.shared import Shared
from lakestream_spark.console.status import Status
from lakestream_spark.console.tables import WAIT_S, TableWatch
from lakestream_spark.core.errors import (
    LakestreamError,
    NotFound,
    OffsetOutOfRange,
    Rejected,
    UnknownTopic,
)

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_STATIC: Final = {
    "/": ("index.html", "text/html"),
    "/static/page.css": ("page.css", "text/css"),
    "/static/page.js": ("page.js", "text/javascript"),
    "/static/icon.svg": ("icon.svg", "image/svg+xml"),
}
_FRESH_S: Final = 1.0
_WITHIN_S: Final = 2.0
_RECORD_WITHIN_S: Final = 30.0
_MAX_TOPICS: Final = 256
_WRONG_TOKEN_PAUSE_S: Final = 0.5
_MISSING: Final = (NotFound, OffsetOutOfRange, UnknownTopic)

_Answer = Callable[[web.Request], Awaitable[web.Response]]


class _Body(NamedTuple):
    """JSON, made once for all who share it."""

    plain: bytes
    packed: bytes

    @classmethod
    def of(cls, found: Any) -> "_Body":
        # ASCII: what clients sent may hold half of a character, which UTF-8 cannot say.
        plain = json.dumps(found, separators=(",", ":")).encode()
        return cls(plain, gzip.compress(plain, 1))


class _Serving:
    """The page of a broker that serves."""

    def __init__(self, parts: Parts) -> None:
        self._clock = parts.clock
        self._tables = TableWatch(parts)
        self._status = Status(parts, self._tables)
        self._topics: dict[str, Shared[_Body]] = {}
        self.records = RecordBrowser(parts)
        self.all = self._shared(self._status.all, _WITHIN_S)

    def topic(self, name: str) -> Shared[_Body]:
        """What all who look at the topic share."""
        found = self._topics.pop(name, None)
        if found is None:
            found = self._shared(partial(self._status.topic, name), _WITHIN_S + WAIT_S)
        self._topics[name] = found
        # The one that was not asked for the longest goes.
        while len(self._topics) > _MAX_TOPICS:
            del self._topics[next(iter(self._topics))]
        return found

    def _shared(self, ask: Callable[[], Awaitable[Any]], within_s: float) -> Shared[_Body]:
        async def body() -> _Body:
            return _Body.of(await ask())

        return Shared(body, self._clock, fresh_s=_FRESH_S, within_s=within_s, what="metadata store")

    async def close(self) -> None:
        await asyncio.gather(self.all.close(), *(each.close() for each in self._topics.values()))
        await self._tables.close()


class StatusPage:
    """The routes of the page; what they show comes with `serving`."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._serving: _Serving | None = None

    def serving(self, parts: Parts) -> None:
        """The broker serves from now on."""
        self._serving = _Serving(parts)

    async def stop(self) -> None:
        """The broker stops: its stores are not asked any more."""
        serving, self._serving = self._serving, None
        if serving is not None:
            await serving.close()

    def routes(self) -> list[web.RouteDef]:
        own = {path: _file(*named) for path, named in _STATIC.items()}
        own |= {"/api/status": self._status, "/api/topic": self._topic, "/api/record": self._record}
        return [web.get(path, self._guarded(answer)) for path, answer in own.items()]

    def _guarded(self, answer: _Answer) -> _Answer:
        async def guarded(request: web.Request) -> web.Response:
            response = await self._refused(request) or await _told(answer, request)
            response.headers.update(_HEADERS)
            return response

        return guarded

    async def _refused(self, request: web.Request) -> web.Response | None:
        headers = request.headers
        verdict = self._access.judge(headers.get("Host", ""), headers.get("Authorization"))
        if verdict is Verdict.WELCOME:
            return None
        if verdict is Verdict.WRONG_TOKEN:
            await asyncio.sleep(_WRONG_TOKEN_PAUSE_S)
        response = _error(verdict.status, verdict.sentence)
        if verdict.status == web.HTTPUnauthorized.status_code:
            response.headers["WWW-Authenticate"] = 'Basic realm="lakestream", charset="UTF-8"'
        return response

    async def _status(self, request: web.Request) -> web.Response:
        return _sent(request, await self._now.all.get())

    async def _topic(self, request: web.Request) -> web.Response:
        return _sent(request, await self._now.topic(_named(request, "topic")).get())

    async def _record(self, request: web.Request) -> web.Response:
        name = _named(request, "topic")
        partition, offset = _number(request, "partition"), _number(request, "offset")
        toward = _toward(request)
        async with asyncio.timeout(_RECORD_WITHIN_S):
            found = await self._now.records.find(name, partition, offset, toward)
        return _sent(request, _Body.of(found))

    @property
    def _now(self) -> _Serving:
        if self._serving is None:
            raise LakestreamError("the broker does not serve: it starts, or it stops")
        return self._serving


async def _told(answer: _Answer, request: web.Request) -> web.Response:
    """The answer, or the one sentence that says why there is none."""
    try:
        return await answer(request)
    except _MISSING as error:
        return _error(web.HTTPNotFound.status_code, error.message)
    except Rejected as error:
        return _error(web.HTTPBadRequest.status_code, str(error))
    except LakestreamError as error:
        return _error(web.HTTPServiceUnavailable.status_code, str(error))
    except TimeoutError:
        return _error(web.HTTPServiceUnavailable.status_code, "a store does not answer in time")


def _file(name: str, content_type: str) -> _Answer:
    body = (files("lakestream_spark.console") / "static" / name).read_bytes()

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type=content_type, charset="utf-8")

    return answer


def _sent(request: web.Request, body: _Body) -> web.Response:
    if "gzip" not in request.headers.get("Accept-Encoding", ""):
        return _json(body.plain)
    response = _json(body.packed)
    response.headers["Content-Encoding"] = "gzip"
    return response


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json", charset="utf-8")


def _error(status: int, sentence: str) -> web.Response:
    response = _json(json.dumps({"error": sentence}).encode())
    response.set_status(status)
    return response


def _named(request: web.Request, name: str) -> str:
    given = request.query.get(name)
    if not given:
        raise Rejected(f"name the {name} in the question: ?{name}=...")
    return given


def _number(request: web.Request, name: str) -> int:
    given = _named(request, name)
    if not given.isascii() or not given.isdecimal() or len(given) > len(str(2**63)):
        raise Rejected(f"the {name} is a number from 0 on, not {given[:100]!r}")
    return int(given)


def _toward(request: web.Request) -> Toward:
    given = request.query.get("toward", Toward.NEXT.value)
    try:
        return Toward(given)
    except ValueError:
        raise Rejected(f"toward is next or previous, not {given[:100]!r}") from None
