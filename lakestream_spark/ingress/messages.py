"""Kafka's messages through kio: a request from its frame, a response into one.

Each version has its own classes. A handler names every field of a response once; those that a
version does not have are left out, and what an older version cannot say is not said.
"""

import struct
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import IO, Any, Final, NamedTuple, TypeAlias, cast

from kio.index import load_payload_module, load_request_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i32
from kio.static.protocol import ResponsePayload

from lakestream_spark.core.errors import Rejected
from lakestream_spark.ingress.client import Client
from lakestream_spark.kafka.pieces import Piece, Pieces

_PREFIX: Final = struct.Struct(">hhi")
_SIZE: Final = struct.Struct(">i")


Frame: TypeAlias = bytes | memoryview
"""A request without its size; a view is read-only and valid until the request is begun."""


class Envelope(NamedTuple):
    """What every request begins with."""

    api_key: int
    version: int
    correlation_id: int


class Request(NamedTuple):
    """A decoded request; `message` is the kio class of its version."""

    envelope: Envelope
    message: Any
    client_id: str | None
    client: Client

    def respond(self, kind: str, /, **values: object) -> Any:
        """The response class `kind` (top or nested) of this request's version."""
        return _build(self.envelope.api_key, self.envelope.version, kind, values)


def read_envelope(frame: Frame) -> Envelope:
    if len(frame) < _PREFIX.size:
        raise Rejected("a request ends inside its header", size=len(frame))
    return Envelope(*_PREFIX.unpack_from(frame))


def read_request(envelope: Envelope, frame: Frame, client: Client) -> Request:
    """The request in `frame`; the caller has checked that the API and version are offered."""
    schema = load_request_schema(envelope.api_key, envelope.version)
    try:
        header, header_size = entity_reader(schema.__header_schema__)(frame, 0)
        message, _ = entity_reader(schema)(frame, header_size)
    except Exception as error:
        raise Rejected(
            f"a request cannot be read: {error!r}", api=envelope.api_key, version=envelope.version
        ) from error
    return Request(envelope, message, header.client_id, client)


def encode_response(envelope: Envelope, response: ResponsePayload) -> Pieces:
    """The whole frame, its size in front; records stay in the pieces they are in."""
    sink = _Sink()
    stream = cast("IO[bytes]", sink)  # kio calls nothing but `write`
    header = response.__header_schema__
    entity_writer(header)(stream, header(correlation_id=i32(envelope.correlation_id)))
    entity_writer(type(response))(stream, response)
    return sink.frame()


class _Sink:
    """What kio writes a response to; `Pieces` pass through without a copy."""

    __slots__ = ("_parts", "_small")

    def __init__(self) -> None:
        self._small = bytearray(_SIZE.size)
        self._parts: list[Piece] = [self._small]

    def write(self, data: bytes | Pieces) -> None:
        if isinstance(data, Pieces):
            if data:
                self._parts += data.parts
                self._small = bytearray()
                self._parts.append(self._small)
        else:
            self._small += data

    def frame(self) -> Pieces:
        first = self._parts[0]
        assert isinstance(first, bytearray)
        _SIZE.pack_into(first, 0, sum(map(len, self._parts)) - _SIZE.size)
        return Pieces(self._parts)


def api_name(api_key: int, version: int) -> str:
    """Kafka's name of an API, such as `Produce`."""
    return load_request_schema(api_key, version).__name__.removesuffix("Request")


def errors_in(entity: Any) -> Iterator[ErrorCode]:
    """Every error code that a response carries, at its top or in what it lists."""
    own, lists = _where_errors_are(entity.__class__)
    if own and entity.error_code is not ErrorCode.none:
        yield entity.error_code
    for name in lists:
        for each in getattr(entity, name) or ():
            yield from errors_in(each)


@cache
def _where_errors_are(kind: type[Any]) -> tuple[bool, tuple[str, ...]]:
    """Whether a class has an error code, and its fields that list classes of the same response."""
    types = {field.name: str(field.type) for field in fields(kind)}
    lists = tuple(name for name, text in types.items() if text.startswith("tuple[kio.schema."))
    return "error_code" in types, tuple(name for name in lists if ".response." in types[name])


def response_of(api: int, version: int, kind: str, /, **values: object) -> Any:
    """A response class of any version, for answers to requests that cannot be read."""
    return _build(api, version, kind, values)


def _build(api_key: int, version: int, name: str, values: dict[str, object]) -> Any:
    kind, known = _response_class(api_key, version, name)
    return kind(**{field: value for field, value in values.items() if field in known})


@cache
def _response_class(api_key: int, version: int, name: str) -> tuple[type[Any], frozenset[str]]:
    kind = getattr(load_payload_module(api_key, version, EntityType.response), name)
    return kind, frozenset(field.name for field in fields(kind))
