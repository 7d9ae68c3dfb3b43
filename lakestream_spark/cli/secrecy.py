"""Settings as they may be shown: where a secret is, dots stand for it."""

import re
from collections.abc import Mapping
from typing import Final

DOTS: Final = "..."
_SECRETS: Final = ("password", "secret", "token", "credential")
_IN_URL: Final = re.compile(r"(//[^/@:]*:)[^/]*@")
_IN_QUERY: Final = re.compile(rf"([?&]\w*(?:{'|'.join(_SECRETS)})\w*=)[^&]*", re.IGNORECASE)


def without_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    """Secrets may be values of their own or within a URL."""
    return {
        key: DOTS if any(secret in key.lower() for secret in _SECRETS) else without_password(value)
        for key, value in properties.items()
    }


def without_password(url: str) -> str:
    """The same text, unless it is a URL that holds one."""
    return _IN_QUERY.sub(rf"\1{DOTS}", _IN_URL.sub(rf"\1{DOTS}@", url))
