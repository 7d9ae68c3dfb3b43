"""Many connections to a broker that say hello once and then nothing."""

import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

# ApiVersions v0 without a client id: what every client says first.
_HELLO: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_SPARE_FILES: Final = 512


@contextmanager
def idle_connections(bootstrap: str, count: int) -> Iterator[list[socket.socket]]:
    """So many open connections, each of which was answered once."""
    allow_files(count + _SPARE_FILES)
    host, _, port = bootstrap.rpartition(":")
    with ExitStack() as stack:
        opened: list[socket.socket] = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((host, int(port)), 60))
            say_hello(connection)
            opened.append(connection)
        yield opened


def say_hello(connection: socket.socket) -> None:
    """One request and its whole answer."""
    connection.sendall(_HELLO)
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    assert _exactly(connection, size)[:4] == struct.pack(">i", 1)


def allow_files(count: int) -> None:
    """Let this process, and those it starts from now on, open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        assert hard == resource.RLIM_INFINITY or hard >= count, f"at most {hard} open files"
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        assert more, "the broker closed the connection"
        found += more
    return found
