"""The listening socket.

Bind first, serve later: the port that clients are told must be known before the first of them asks,
and a port that is taken must be noticed before anything else happens.
"""

import errno
import socket
from typing import Final

from lakestream_spark.core.errors import Misconfigured

_BACKLOG: Final = 1024


def listen(host: str, port: int, *, setting: str = "broker.port") -> socket.socket:
    """A bound socket; port 0 picks a free one. Raises `Misconfigured` when it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Misconfigured(
                f"port {port} of {host} is in use: stop what listens there, or choose another "
                f"{setting} (0 picks a free one)"
            ) from error
        reason = error.strerror or str(error)
        raise Misconfigured(
            f"cannot listen on port {port} of {host!r}: {reason}", setting=setting
        ) from error
