"""The reader process's end of the socket: whole frames, and a sign of life between them.

What always holds: frames of several threads never mix; while the interpreter runs a frame goes out
every second, however long the work on an answer takes, so silence means that nothing runs.
"""

import socket
import threading
import time
from typing import Final

from lakestream_spark.history.messages import HEAD, Kind

_BEAT_EVERY_S: Final = 1.0


class Sender:
    """Sends for all threads of the process."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()

    def start_beating(self) -> None:
        """From a thread of its own, as long as there is somebody to hear it."""
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def send(self, tally: bytes, number: int, kind: Kind, body: bytes) -> None:
        """An answer, after what was counted until now."""
        with self._lock:
            self._sock.sendall(HEAD.pack(len(tally), 0, Kind.TALLY) + tally)
            self._sock.sendall(HEAD.pack(len(body), number, kind))
            self._sock.sendall(body)

    def _beat(self) -> None:
        while True:
            time.sleep(_BEAT_EVERY_S)
            try:
                with self._lock:
                    self._sock.sendall(HEAD.pack(0, 0, Kind.ALIVE))
            except OSError:  # The broker is gone.
                return
