"""The registry of brokers in memory."""

from lakestream_spark.core.errors import Fenced
from lakestream_spark.metadata.brokers import Incarnation, Node, RegisteredBroker, Registration


def registration(node_id: int, *, life: str = "", rack: str | None = None) -> Registration:
    node = Node(node_id, "host", 9000 + node_id, rack)
    return Registration(node, Incarnation("machine", life or f"life-{node_id}"))


class MemoryRegistry:
    """The rows by node id, as the registry of the metadata store keeps them."""

    def __init__(self) -> None:
        self.rows: dict[int, RegisteredBroker] = {}
        self.removed: list[int] = []

    def join(self, broker: Registration) -> None:
        self.rows[broker.node.node_id] = RegisteredBroker(broker, 0)

    async def beat(self, broker: Registration) -> None:
        row = self.rows.get(broker.node.node_id)
        if row is None or row.registration != broker:
            raise Fenced("replaced", replaced_by=None if row is None else "another")
        self.rows[broker.node.node_id] = row._replace(beat=row.beat + 1)

    async def leave(self, broker: Registration) -> None:
        row = self.rows.get(broker.node.node_id)
        if row is not None and row.registration == broker:
            del self.rows[broker.node.node_id]

    async def list(self) -> list[RegisteredBroker]:
        return [self.rows[node_id] for node_id in sorted(self.rows)]

    async def remove(self, seen: RegisteredBroker) -> bool:
        node_id = seen.registration.node.node_id
        if self.rows.get(node_id) != seen:
            return False
        del self.rows[node_id]
        self.removed.append(node_id)
        return True
