"""How a broker says that it is ready: one line on standard output."""

import json
from enum import Enum
from typing import NamedTuple


class Ports(NamedTuple):
    """Where a broker listens."""

    kafka: int
    admin: int


class Announce(Enum):
    """For people, or for programs."""

    TEXT = "text"
    JSON = "json"

    def line(self, node_id: int, kafka: str, admin: str) -> str:
        if self is Announce.JSON:
            found = {"node_id": node_id, "kafka": kafka, "admin": f"http://{admin}"}
            return json.dumps(found)
        return f"lakestream broker {node_id} listening on {kafka} (status page http://{admin})"
