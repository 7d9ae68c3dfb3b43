"""Group coordinators over one store, each as a broker of its own would have it."""

from collections.abc import Sequence

from lakestream_spark.core.clock import Clock
from lakestream_spark.groups import GroupLimits, GroupService
from lakestream_spark.groups.messages import Join, Protocol
from lakestream_spark.metadata import Metadata
from lakestream_spark.metadata.brokers import Node
from lakestream_spark.metadata.leases import Leases
from tests.support.group_driver import subscription

LIMITS = GroupLimits(min_session_timeout_ms=100, find_wait_ms=0)


class Phonebook:
    """Who lives, shared by all; a test takes a broker out when it dies."""

    def __init__(self, holders: Sequence[str] = ()) -> None:
        self.live = {holder: Node(n, holder, 9000 + n) for n, holder in enumerate(holders, 1)}


class Seat:
    """A broker's own view of the phonebook."""

    def __init__(self, book: Phonebook, holder: str) -> None:
        self._book = book
        self._holder = holder

    @property
    def holder(self) -> str:
        return self._holder

    def address_of(self, holder: str) -> Node | None:
        return self._book.live.get(holder)


def coordinator(
    metadata: Metadata, book: Phonebook, holder: str, clock: Clock, limits: GroupLimits = LIMITS
) -> GroupService:
    """The coordinator of another process: it remembers nothing of the others' leases."""
    leases = Leases(metadata.database, clock)
    seat = Seat(book, holder)
    return GroupService(leases, metadata.group_offsets, seat, clock=clock, limits=limits)


def join_request(member_id: str = "", **changes: object) -> Join:
    values: dict[str, object] = {
        "protocol_type": "consumer",
        "protocols": (Protocol("range", subscription("orders")),),
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "must_know_id": False,
    }
    return Join(member_id=member_id, **values | changes)  # type: ignore[arg-type]
