"""One process for a node id, where all is on one machine: a lock of its own that the OS ends.

What always holds: the lock is held as long as the process lives and not a moment longer, however
it ends, so that a restart after a crash waits for nothing. Where the metadata store is a server,
brokers of other machines see no lock: there who joins last replaces the other.
"""

import sys
from pathlib import Path
from typing import IO, Final

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.ingress.cluster import Registry

if sys.platform != "win32":
    import fcntl

_SQLITE: Final = "sqlite:///"
_LOOK_S: Final = 0.1
_PATIENCE_S: Final = 30.0


class NodeLock:
    """The lock of a node id, beside the file of the metadata store."""

    def __init__(self, metadata_url: str, node_id: int) -> None:
        path = metadata_url.removeprefix(_SQLITE)
        is_file = metadata_url.startswith(_SQLITE) and path and sys.platform != "win32"
        self._node_id = node_id
        self._path = Path(path).with_name(f"broker-{node_id}.lock") if is_file else None
        self._held: IO[bytes] | None = None

    async def hold(self, registry: Registry, clock: Clock) -> None:
        """Raises `Misconfigured` while another process serves; one that stops is waited for."""
        began = clock.monotonic()
        while not self._try():
            nodes = {each.registration.node for each in await registry.list()}
            other = next((node for node in nodes if node.node_id == self._node_id), None)
            if other is not None or clock.monotonic() - began > _PATIENCE_S:
                raise Misconfigured(
                    f"a broker with node id {self._node_id} runs on this data already"
                    f"{'' if other is None else f', at {other.host}:{other.port}'}: use that one, "
                    "stop it, or give this one an id of its own (broker.id)",
                    lock=self._path,
                )
            await clock.sleep(_LOOK_S)

    def release(self) -> None:
        if self._held is not None:
            self._held.close()

    def _try(self) -> bool:
        if self._path is None:
            return True
        file = self._path.open("wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        except OSError:
            # A file system that knows no locks keeps nobody from starting.
            pass
        self._held = file
        return True
