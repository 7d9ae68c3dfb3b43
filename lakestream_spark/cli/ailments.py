"""What can be wrong with an installation, and what to do about it, in one sentence each.

What always holds: every error gets an advice; the one that says most about its cause is taken.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from lakestream_spark.cli.damage import RESTORE
from lakestream_spark.core.errors import LakestreamError


class Sick(Exception):
    """Something is wrong, and this is to be done about it."""

    def __init__(self, about: str, advice: str) -> None:
        super().__init__(about)
        self.advice = advice


class _Remedy(NamedTuple):
    """What is to be done where an error says something like this."""

    signs: re.Pattern[str]
    advice: str


def _remedy(signs: str, advice: str) -> _Remedy:
    return _Remedy(re.compile(signs, re.IGNORECASE), advice)


SET_CLOCK: Final = (
    "set this machine's clock by NTP, such as with `timedatectl set-ntp true`: "
    "stores refuse requests of another time"
)
MAKE_ROOM: Final = "make room on it: nothing is acknowledged while it is full"
ALLOW: Final = (
    "let these credentials read, write, list and delete below it "
    "(s3:GetObject, s3:PutObject, s3:ListBucket, s3:DeleteObject)"
)
_REMEDIES: Final[Sequence[_Remedy]] = (
    _remedy(r"request_?time_?too_?skewed|request_?expired", SET_CLOCK),
    _remedy(
        r"invalid_?access_?key|signature_?does_?not_?match|(expired|invalid)_?token|status=401"
        r"|unrecognized_?client",
        "give keys that are right and not expired: [store] for the WAL, [catalog.properties] for "
        "the tables",
    ),
    _remedy(r"no space left|disk of .+ is full|disk is full|disk quota", MAKE_ROOM),
    _remedy(
        r"this process may not use|permission denied|read-only file system|readonly database",
        "let this user write there, or name another place with --data",
    ),
    _remedy(r"access_?denied|status=403|\b403\b|forbidden", ALLOW),
    _remedy(r"is in another region|permanent_?redirect", "name the bucket's region: store.region"),
    _remedy(r"file is damaged|file is not a database|image is malformed", RESTORE),
    _remedy(r"no_?such_?bucket", "make the bucket, or mend the URL that names it"),
)
_OURS: Final = "mend this setting or what it names"
_OTHERS: Final = "look at its own log"


def sick_of(error: Exception, doing: str = "") -> Sick:
    """The error, and what to do about it; `doing` is what did not work."""
    if isinstance(error, Sick):
        return error
    is_ours = isinstance(error, LakestreamError)
    text = str(error) if is_ours else f"{type(error).__name__}: {error}"
    advice = next((r.advice for r in _REMEDIES if r.signs.search(text)), None)
    about = f"{doing} does not work: {text}" if doing else text
    return Sick(about, advice or (_OURS if is_ours else _OTHERS))
