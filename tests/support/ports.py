"""Ports for servers that must be told theirs before they start.

What always holds: the port lies outside the range from which the system draws ports by itself, so
that no connection and no listener on port 0 gets it between the choice and the start; and the same
process never gives a port twice.
"""

import socket
from pathlib import Path
from random import SystemRandom
from typing import Final

_DRAWN_FROM: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST: Final = 10_000
_LAST_ELSEWHERE: Final = 30_000
_given: set[int] = set()


def free_port() -> int:
    """A port of loopback on which nobody listens."""
    random = SystemRandom()
    for _ in range(1_000):
        port = random.randrange(_FIRST, _end())
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise AssertionError("no free port was found")


def _end() -> int:
    try:
        return max(int(_DRAWN_FROM.read_text().split()[0]), _FIRST + 1_000)
    except OSError:
        return _LAST_ELSEWHERE


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
