"""The reader process of a broker: `python -m lakestream_spark.history.process`.

Its standard input is the socket that its broker asks on. What always holds: it runs with a lower
priority than the broker, so that a replay takes what the others leave; it says that it is alive
from its first moment on; it ends when the socket does, also when the broker was killed.
"""

import os
import signal
import socket
import sys
import threading
from importlib.abc import MetaPathFinder
from typing import Final

from lakestream_spark.core.collector import spare_the_collector
from lakestream_spark.history.messages import Start
from lakestream_spark.history.sender import Sender

_NICE: Final = 10
_PATIENCE_S: Final = 20.0
"""Less than a broker waits for an answer, so that it hears what the matter is."""
_LEAST_AT_WORK: Final = 4
"""More than cores: some of them wait for a store."""
_THREADS: Final = 256
"""Most of them are never started: only those who wait for a long look at a table are many."""


class _WithoutPandas(MetaPathFinder):
    """Arrow loads pandas when it is there, for a fifth of the start; nothing here needs it."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:  # noqa: ARG002
        if name == "pandas":
            raise ModuleNotFoundError("history needs no pandas", name=name)


def main() -> None:
    # The broker decides when to stop, and the end of its socket tells us.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.meta_path.insert(0, _WithoutPandas())
    sock = socket.socket(fileno=sys.stdin.fileno())
    sender = Sender(sock)
    sender.start_beating()
    # Here and not above: they must not find pandas.
    import pyarrow as pa

    from lakestream_spark.history.reader import TableReader
    from lakestream_spark.history.server import Server, receive
    from lakestream_spark.history.turns import Turns

    # A read is decoded in its own thread; several of them share the cores.
    pa.set_cpu_count(1)
    spare_the_collector()
    # Only now: the first who asks waits for all this.
    os.nice(_NICE)
    frame = receive(sock)
    if frame is not None:
        start = Start.from_body(frame[1])
        turns = Turns(working=max(_LEAST_AT_WORK, os.cpu_count() or 1), threads=_THREADS)
        reader = TableReader(
            start.spec, start.memory_bytes, patience_s=_PATIENCE_S, wait=turns.ended
        )
        # Beside the server: a catalog that does not answer keeps no question from being heard.
        threading.Thread(target=reader.open_ahead, name="open-catalog", daemon=True).start()
        Server(sock, sender, reader, turns).run()
    # Threads may still read for a broker that is gone.
    os._exit(0)


if __name__ == "__main__":
    main()
