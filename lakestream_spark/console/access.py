"""Who may see the page.

What always holds: without a token only requests to a loopback port under a loopback name are
answered, so that no web page of another name (DNS rebinding) reads anything; with a token, only
those that carry it, wherever the port is.
"""

import binascii
import hmac
from base64 import b64decode
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import ip_address
from typing import Final

_LOCALHOST: Final = "localhost"


class Verdict(Enum):
    """What becomes of a request: its status and one sentence."""

    WELCOME = (200, "")
    NO_TOKEN = (401, "the status page needs a token: give broker.admin_token as the password")
    WRONG_TOKEN = (401, "the token is not the one of broker.admin_token")
    OFF = (403, "the status page is off: set broker.admin_token, or a loopback broker.admin_host")
    OTHER_NAME = (403, "the status page is for this machine only: ask for it as localhost")

    @property
    def status(self) -> int:
        return self.value[0]

    @property
    def sentence(self) -> str:
        return self.value[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the port listens, and the token if there is one."""

    host: str
    token: str | None = field(default=None, repr=False)

    def judge(self, host_header: str, authorization: str | None) -> Verdict:
        if self.token is not None:
            return _judge_token(self.token, authorization)
        if not is_loopback(self.host):
            return Verdict.OFF
        return Verdict.WELCOME if is_loopback(_name_of(host_header)) else Verdict.OTHER_NAME


def is_loopback(name: str) -> bool:
    """Whether the name or address is this machine's own for itself."""
    if name.lower() == _LOCALHOST:
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _name_of(host_header: str) -> str:
    """The name in a Host header, without its port."""
    if host_header.startswith("["):
        return host_header[1:].partition("]")[0]
    return host_header.partition(":")[0]


def _judge_token(token: str, authorization: str | None) -> Verdict:
    given = None if authorization is None else _given(authorization)
    if given is None:
        return Verdict.NO_TOKEN
    same = hmac.compare_digest(given, token.encode())
    return Verdict.WELCOME if same else Verdict.WRONG_TOKEN


def _given(authorization: str) -> bytes | None:
    """The token of `Bearer TOKEN`, or of `Basic`, where it is the password of any user."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip().encode("utf-8", "surrogateescape")
    if scheme.lower() != "basic":
        return None
    try:
        _, found, password = b64decode(rest.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return password if found else None
