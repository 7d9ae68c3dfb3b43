"""The registry of brokers: who they are, how clients reach them, and that they live.

What always holds: a node id has at most one row, and it belongs to the incarnation that joined
last; an incarnation whose row is gone or taken finds out at its next beat and stops. A broker's WAL
writers are registered after it joined, so whoever removes a row that is still as it was seen may
fence all writers of that broker in the same transaction: they are the dead one's.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from lakestream_spark.core.errors import Fenced
from lakestream_spark.metadata.database import Database, Execute, Fetch, Row, Transaction
from lakestream_spark.metadata.writers import fence_writers_of

_COLUMNS: Final = "node_id, incarnation, host, port, rack, beat, started_ms"


class Node(NamedTuple):
    """A broker as clients see it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Incarnation(NamedTuple):
    """One life of a broker process: the machine it runs on and an id that is never used again."""

    machine: str
    life: str

    def __str__(self) -> str:
        return f"{self.machine}/{self.life}"

    @classmethod
    def parse(cls, text: str) -> "Incarnation":
        machine, _, life = text.rpartition("/")
        return cls(machine, life)


class Registration(NamedTuple):
    """A broker's entry as its owner knows it."""

    node: Node
    incarnation: Incarnation
    started_ms: int = 0

    @property
    def holder(self) -> str:
        """The name under which this life of the broker holds leases."""
        return f"{self.node.node_id}:{self.incarnation.life}"


class RegisteredBroker(NamedTuple):
    """A row of the registry; `beat` changes while its owner lives."""

    registration: Registration
    beat: int


class Brokers:
    """The registry."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def join(self, broker: Registration) -> Incarnation | None:
        """Enter the registry; the incarnation that had this node id until now, if any, is out."""
        return await self._database.run(_join(broker))

    async def beat(self, broker: Registration) -> None:
        """Show that the broker lives; raises `Fenced` with the fact `replaced_by`, which is None
        when the others took it for dead and removed it."""
        await self._database.run(_beat(broker))

    async def leave(self, broker: Registration) -> None:
        """Take the broker out; nothing happens if it is out already."""
        await self._database.run(_leave(broker))

    async def list(self) -> list[RegisteredBroker]:
        """All rows, by node id."""
        return await self._database.read(_list())

    async def remove(self, seen: RegisteredBroker) -> bool:
        """Take a dead broker out and fence its WAL writers, unless its row has changed since."""
        return await self._database.run(_remove(seen))


def _join(broker: Registration) -> Transaction[Incarnation | None]:
    node = broker.node
    previous = yield Fetch(
        "SELECT incarnation FROM brokers WHERE node_id = $1 FOR UPDATE", (node.node_id,)
    )
    yield Execute(
        f"INSERT INTO brokers ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, 0, $6) "
        "ON CONFLICT (node_id) DO UPDATE SET incarnation = excluded.incarnation, "
        "host = excluded.host, port = excluded.port, rack = excluded.rack, beat = 0, "
        "started_ms = excluded.started_ms",
        (
            *(node.node_id, str(broker.incarnation), node.host, node.port, node.rack),
            broker.started_ms,
        ),
    )
    replaced = Incarnation.parse(previous[0][0]) if previous else None
    return None if replaced == broker.incarnation else replaced


def _beat(broker: Registration) -> Transaction[None]:
    rows = yield Fetch(
        "UPDATE brokers SET beat = beat + 1 WHERE node_id = $1 AND incarnation = $2 RETURNING beat",
        (broker.node.node_id, str(broker.incarnation)),
    )
    if rows:
        return
    taken = yield Fetch("SELECT host, port FROM brokers WHERE node_id = $1", (broker.node.node_id,))
    if taken:
        raise Fenced(
            "another process joined with this node id: give each broker an id of its own",
            node_id=broker.node.node_id,
            replaced_by=f"{taken[0][0]}:{taken[0][1]}",
        )
    raise Fenced(
        "the other brokers took this one for dead and removed it",
        node_id=broker.node.node_id,
        replaced_by=None,
    )


def _leave(broker: Registration) -> Transaction[None]:
    yield Execute(
        "DELETE FROM brokers WHERE node_id = $1 AND incarnation = $2",
        (broker.node.node_id, str(broker.incarnation)),
    )


def _list() -> Transaction[list[RegisteredBroker]]:
    rows = yield Fetch(f"SELECT {_COLUMNS} FROM brokers ORDER BY node_id")
    return [_registered(row) for row in rows]


def _registered(row: Row) -> RegisteredBroker:
    node_id, incarnation, host, port, rack, beat, started_ms = row
    node = Node(node_id, host, port, rack)
    return RegisteredBroker(Registration(node, Incarnation.parse(incarnation), started_ms), beat)


def _remove(seen: RegisteredBroker) -> Transaction[bool]:
    broker = seen.registration
    rows: Sequence[Row] = yield Fetch(
        "DELETE FROM brokers WHERE node_id = $1 AND incarnation = $2 AND beat = $3 "
        "RETURNING node_id",
        (broker.node.node_id, str(broker.incarnation), seen.beat),
    )
    if not rows:
        return False
    yield from fence_writers_of(broker.node.node_id)
    return True
