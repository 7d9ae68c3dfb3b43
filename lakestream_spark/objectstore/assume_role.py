"""Temporary S3 keys of a role, had from AWS's token service (STS) with the keys that are set.

obstore assumes a role by web identity only; this is the other way, one signed request (AWS
Signature Version 4). obstore asks again shortly before the keys expire.
"""

import asyncio
import hashlib
import hmac
import os
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from lakestream_spark.core.errors import LakestreamError, Misconfigured, Unavailable
from lakestream_spark.objectstore.options import StoreOptions

if TYPE_CHECKING:
    from obstore.store import S3Credential

_FORM = "application/x-www-form-urlencoded; charset=utf-8"


class Keys(NamedTuple):
    """What a request is signed with."""

    id: str
    secret: str
    token: str | None

    def __repr__(self) -> str:
        return f"Keys(id={self.id!r})"


def role_credentials(options: StoreOptions) -> "Callable[[], Awaitable[S3Credential]]":
    """A function that assumes the role of the options; checked here, called when needed."""
    keys = _keys(options)
    region = options.region or os.environ.get("AWS_REGION") or "us-east-1"
    endpoint = options.sts_endpoint or f"https://sts.{region}.amazonaws.com"
    role = options.role_arn
    body = urlencode(
        {
            "Action": "AssumeRole",
            "Version": "2011-06-15",
            "RoleArn": role,
            "RoleSessionName": options.role_session_name or "lakestream",
        }
    ).encode()

    def ask() -> "S3Credential":
        request = signed(endpoint, body, region=region, keys=keys, now=datetime.now(UTC))
        try:
            with urlopen(request, timeout=options.request_timeout_s) as answer:
                return _parsed(answer.read().decode())
        except HTTPError as error:
            with error:
                raise _refused(str(role), error) from None
        except OSError as error:
            raise Unavailable(f"{endpoint} does not answer", reason=error) from None

    async def ask_in_thread() -> "S3Credential":
        return await asyncio.to_thread(ask)

    return ask_in_thread


def signed(endpoint: str, body: bytes, *, region: str, keys: Keys, now: datetime) -> Request:
    """The request to STS with its signature."""
    at, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    headers = {"content-type": _FORM, "host": urlsplit(endpoint).netloc, "x-amz-date": at}
    if keys.token:
        headers["x-amz-security-token"] = keys.token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{day}/{region}/sts/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{keys.secret}".encode()
    for part in (day, region, "sts", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{digest}".encode(), "sha256")
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.id}/{scope}, SignedHeaders={names}, "
        f"Signature={signature.hex()}"
    )
    return Request(endpoint.rstrip("/") + "/", data=body, headers=headers, method="POST")


def _keys(options: StoreOptions) -> Keys:
    if options.access_key_id and options.secret_access_key:
        token = options.session_token
        secret = options.secret_access_key.get_secret_value()
        return Keys(options.access_key_id, secret, token.get_secret_value() if token else None)
    env = os.environ
    if "AWS_ACCESS_KEY_ID" in env and "AWS_SECRET_ACCESS_KEY" in env:
        token_from_env = env.get("AWS_SESSION_TOKEN")
        return Keys(env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], token_from_env)
    raise Misconfigured(
        f"assuming {options.role_arn} needs access_key_id and secret_access_key, "
        "or web_identity_token_file; a machine's own role needs no role_arn"
    )


def _refused(role: str, error: HTTPError) -> LakestreamError:
    code = _element(error.read().decode(errors="replace"), "Code") or error.code
    if error.code >= 500 or error.code == 429:
        return Unavailable(f"the role {role} cannot be assumed now", reason=code)
    return Misconfigured(f"the role {role} cannot be assumed", reason=code)


def _parsed(answer: str) -> "S3Credential":
    found = {
        name: value
        for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
        if (value := _element(answer, name))
    }
    if len(found) < 4:
        raise Misconfigured("the token service gave no credentials", found=", ".join(found))
    return {
        "access_key_id": found["AccessKeyId"],
        "secret_access_key": found["SecretAccessKey"],
        "token": found["SessionToken"],
        "expires_at": datetime.fromisoformat(found["Expiration"]),
    }


def _element(answer: str, name: str) -> str | None:
    match = re.search(rf"<{name}>([^<]+)</{name}>", answer)
    return match[1] if match else None
