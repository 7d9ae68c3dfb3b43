"""What an error of obstore means to the caller, in one sentence.

The texts of obstore hold whole answers and addresses, which may carry a signature. Only the status,
the cloud's error code and the kind of network failure are taken from them.
"""

import re

from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

from lakestream_spark.core.errors import (
    Corrupt,
    LakestreamError,
    Misconfigured,
    NotFound,
    Unavailable,
)

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_NETWORK = re.compile(r"kind: (Connect|Request|Timeout|Interrupted|Decode)\b")
_ROLE = re.compile(r"External AWS credential provider: (\w+): (.*)")
_METADATA_SERVICE = re.compile(r"169\.254\.169\.254|fd00:ec2::254|metadata\.google\.internal")

_SENTENCES = {
    "Connect": "no connection",
    "Timeout": "no answer in time",
    "Request": "the connection broke",
    "Interrupted": "the connection broke",
    "Decode": "the answer broke off",
}
_OBJECT_MISSING = {"NoSuchKey", "NoSuchVersion", "BlobNotFound", "NotFound", None}
_TRANSIENT_STATUS = {408, 409, 412, 425, 429}
_TRANSIENT_CODES = {"RequestTimeout", "IncompleteBody", "BadDigest", "OperationAborted"}


def from_obstore(error: Exception, url: str, key: str) -> LakestreamError:
    """The error of this project for one that obstore raised."""
    text = str(error)
    if role := _ROLE.search(text):
        return (Misconfigured if role[1] == "Misconfigured" else Unavailable)(role[2])
    status = int(found[1]) if (found := _STATUS.search(text)) else None
    code = found[1] if (found := _CODE.search(text)) else None
    if status == 404 or isinstance(error, FileNotFoundError):
        return _missing(url, key, code)
    denied = isinstance(error, (PermissionDeniedError, UnauthenticatedError))
    if denied or status in (401, 403) or code == "AccessDenied":
        return Misconfigured(f"{url} refuses these credentials", status=status, code=code)
    if "BareRedirect" in text or status in (301, 307):
        return Misconfigured(f"{url} is in another region", status=status, code=code)
    if status == 416:
        return Corrupt("the object is shorter than it must be", store=url, key=key)
    if status is None:
        return _network(url, key, text)
    if status >= 500 or status in _TRANSIENT_STATUS or code in _TRANSIENT_CODES:
        return Unavailable(f"{url} cannot serve this now", key=key, status=status, code=code)
    return Misconfigured(f"{url} refuses this request", key=key, status=status, code=code)


def _missing(url: str, key: str, code: str | None) -> LakestreamError:
    # Taken for a missing object, a missing bucket would look like lost data.
    if code in _OBJECT_MISSING:
        return NotFound("no such object", store=url, key=key)
    return Misconfigured(f"{url} does not exist", code=code)


def _network(url: str, key: str, text: str) -> LakestreamError:
    if _METADATA_SERVICE.search(text):
        return Unavailable(
            f"no credentials for {url}: none are set and the machine's metadata service gave none"
        )
    found = _NETWORK.search(text)
    reason = _SENTENCES[found[1]] if found else text.partition("\n")[0].partition("?")[0][:200]
    return Unavailable(f"{url} does not answer", key=key, reason=reason)
