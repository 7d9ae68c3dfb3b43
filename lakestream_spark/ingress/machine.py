"""Which machine this is, and the refusal of a WAL folder that brokers of other machines cannot see.

The kernel's boot id is the same for every container on a host and differs between hosts. It
changes with a reboot, so rows from before one look foreign: they are watched for a session, and
only one that still beats is refused.
"""

import platform
from pathlib import Path
from typing import Final
from uuid import uuid4

from lakestream_spark.core.clock import Clock
from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.ingress.cluster import Liveness, Registry
from lakestream_spark.metadata.brokers import Incarnation, Registration

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def new_incarnation() -> Incarnation:
    """A life of a broker on this machine."""
    try:
        machine = _BOOT_ID.read_text().strip()
    except OSError:
        machine = platform.node().replace("/", "-") or "unknown"
    return Incarnation(machine, uuid4().hex)


async def refuse_other_machines(
    me: Registration, registry: Registry, clock: Clock, liveness: Liveness
) -> None:
    """Raise `Misconfigured` when a broker of another machine lives: it cannot see our folder."""
    before = await _beats_elsewhere(me, registry)
    if not before:
        return
    await clock.sleep(liveness.session_s)
    after = await _beats_elsewhere(me, registry)
    for address, beat in after.items():
        if before.get(address) != beat:
            raise Misconfigured(
                "the WAL is a folder (file://), which only brokers of one host can share, but a "
                "broker of another host uses the same metadata store: give both a bucket as "
                "store.url",
                other_broker=address,
            )


async def _beats_elsewhere(me: Registration, registry: Registry) -> dict[str, int]:
    return {
        f"{row.registration.node.host}:{row.registration.node.port}": row.beat
        for row in await registry.list()
        if row.registration.incarnation.machine != me.incarnation.machine
    }
