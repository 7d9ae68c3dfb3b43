"""ApiVersions, v0–v4.

Behaviour: lists what the dispatch table offers. Produce is listed from v0 on, as Kafka does, though
v0–v2 are refused: older librdkafka (2.3 is) takes a broker without Produce v0 for one that knows no
gzip, snappy and lz4, and then sends without compression and without a word.
Version notes: from v3 a client names itself, and a name that is not legal is refused; an unknown
version is answered with a v0 body and error 35, and the connection stays.
Not done: features.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from lakestream_spark.ingress.messages import Request, response_of

API_KEY: Final = 18
VERSIONS: Final = range(5)

_FIRST_WITH_SOFTWARE: Final = 3
_LISTED_FROM: Final = {0: 0}
"""By API key, where it is not the first version that is offered."""
_LEGAL_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def answer(request: Request, offered: Mapping[int, range]) -> ResponsePayload:
    version = request.envelope.version
    if version >= _FIRST_WITH_SOFTWARE and not _is_legal(request.message):
        return _body(version, ErrorCode.invalid_request, {})
    return _body(version, ErrorCode.none, offered)


def _is_legal(message: Any) -> bool:
    named = (message.client_software_name, message.client_software_version)
    return all(_LEGAL_SOFTWARE.fullmatch(each) for each in named)


def unsupported(offered: Mapping[int, range]) -> ResponsePayload:
    """For a version we do not know: the oldest body, which every client reads."""
    return _body(0, ErrorCode.unsupported_version, offered)


def _body(version: int, code: ErrorCode, offered: Mapping[int, range]) -> ResponsePayload:
    body: ResponsePayload = response_of(
        API_KEY,
        version,
        "ApiVersionsResponse",
        error_code=code,
        throttle_time=timedelta(0),
        api_keys=tuple(
            response_of(
                API_KEY,
                version,
                "ApiVersion",
                api_key=key,
                min_version=_LISTED_FROM.get(key, versions[0]),
                max_version=versions[-1],
            )
            for key, versions in sorted(offered.items())
        ),
    )
    return body
