import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import parse_qs

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from pydantic import SecretStr

from lakestream_spark.core.errors import Misconfigured, Unavailable
from lakestream_spark.objectstore.assume_role import Keys, signed
from lakestream_spark.objectstore.open import open_store
from lakestream_spark.objectstore.options import StoreOptions

ROLE_KEYS = """<AssumeRoleResponse><AssumeRoleResult><Credentials>
<AccessKeyId>role-id</AccessKeyId><SecretAccessKey>role-secret</SecretAccessKey>
<SessionToken>role-token</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>
</Credentials></AssumeRoleResult></AssumeRoleResponse>"""


class OneAnswer:
    """A server that gives one answer to every request, and remembers them."""

    def __init__(self, answer: str, status: str) -> None:
        self.answer = answer
        self.status = status
        self.requests: list[tuple[str, dict[str, list[str]]]] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lengths = [int(n) for n in re.findall(r"(?i)content-length: (\d+)", head)]
        body = (await reader.readexactly(sum(lengths))).decode()
        self.requests.append((head, parse_qs(body)))
        lines = f"HTTP/1.1 {self.status}\r\ncontent-length: {len(self.answer)}\r\n"
        stamp = "last-modified: Mon, 16 Nov 2026 00:00:00 GMT\r\netag: x\r\nconnection: close\r\n"
        writer.write(f"{lines}{stamp}\r\n{self.answer}".encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def one_answer(answer: str, status: str = "200 OK") -> AsyncIterator[OneAnswer]:
    service = OneAnswer(answer, status)
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield service
    finally:
        server.close()
        await server.wait_closed()


def _options(sts_url: str, s3_url: str | None = None) -> StoreOptions:
    return StoreOptions(
        region="eu-central-1",
        endpoint=s3_url,
        allow_http=True,
        access_key_id="first-id",
        secret_access_key=SecretStr("first-secret"),
        role_arn="arn:aws:iam::1:role/lake",
        sts_endpoint=sts_url,
    )


async def test_requests_are_signed_with_the_keys_of_the_role_until_they_expire():
    async with one_answer(ROLE_KEYS) as sts, one_answer("content") as s3:
        store = open_store("s3://bucket", _options(sts.url, s3.url))
        assert await store.get("k") == b"content"
        assert await store.get("k") == b"content"
    [(asked, form)] = sts.requests
    assert form["Action"] == ["AssumeRole"]
    assert form["RoleArn"] == ["arn:aws:iam::1:role/lake"]
    assert "Credential=first-id/" in asked
    for request, _ in s3.requests:
        assert "Credential=role-id/" in request
        assert "x-amz-security-token: role-token\r\n" in request


async def test_a_token_service_that_is_gone_is_to_be_tried_again():
    async with one_answer(ROLE_KEYS) as sts:
        gone = sts.url
    with pytest.raises(Unavailable):
        await open_store("s3://bucket", _options(gone)).get("k")


async def test_a_role_that_is_refused_is_a_matter_of_settings():
    async with one_answer("<E><Code>AccessDenied</Code></E>", "403 Forbidden") as sts:
        with pytest.raises(Misconfigured, match="arn:aws:iam::1:role/lake") as raised:
            await open_store("s3://bucket", _options(sts.url)).get("k")
    assert "first-secret" not in str(raised.value)


def test_the_signature_is_the_one_that_aws_computes():
    now = datetime.now(UTC)
    body = b"Action=AssumeRole&Version=2011-06-15"
    endpoint = "https://sts.eu-central-1.amazonaws.com"
    ours = signed(
        endpoint, body, region="eu-central-1", keys=Keys("id", "secret", "token"), now=now
    )
    theirs = AWSRequest(
        "POST",
        f"{endpoint}/",
        data=body,
        headers={"content-type": ours.get_header("Content-type")},
    )
    signer = SigV4Auth(Credentials("id", "secret", "token"), "sts", "eu-central-1")
    theirs.context["timestamp"] = now.strftime("%Y%m%dT%H%M%SZ")
    theirs.headers["X-Amz-Date"] = theirs.context["timestamp"]
    theirs.headers["X-Amz-Security-Token"] = "token"
    canonical = signer.canonical_request(theirs)
    signature = signer.signature(signer.string_to_sign(theirs, canonical), theirs)
    assert str(ours.get_header("Authorization")).endswith(f"Signature={signature}")


def test_a_role_without_keys_says_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    with pytest.raises(Misconfigured, match="web_identity_token_file"):
        open_store("s3://bucket", StoreOptions(role_arn="arn:aws:iam::1:role/lake"))


def test_keys_do_not_show_their_secret():
    assert "secret" not in repr(Keys("id", "secret", None))
