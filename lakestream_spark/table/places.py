"""One spelling for the places of files: engines write the same place in several ways.

Hadoop turns `file:///a` into `file:/a` and calls S3 `s3a`; pyiceberg also takes plain paths.
"""

import re
from typing import Final

_FILE: Final = re.compile(r"^file:/*(?=/)")
_S3: Final = re.compile(r"^s3[an]://")


def canonical(place: str) -> str:
    """A plain path for local files, `s3://` for S3, anything else as it is."""
    return _S3.sub("s3://", _FILE.sub("", place))


def relative(place: str, root: str) -> str | None:
    """The place as seen from the root; None when it is not below it."""
    below = canonical(root).rstrip("/") + "/"
    found = canonical(place)
    return found.removeprefix(below) if found.startswith(below) else None
