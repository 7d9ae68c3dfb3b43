"""What a coordinator asks of its surroundings."""

from typing import Protocol

from lakestream_spark.metadata.brokers import Node


class Directory(Protocol):
    """The live brokers, by the names under which they hold leases."""

    @property
    def holder(self) -> str:
        """This process's own name, never used again after it ends."""

    def address_of(self, holder: str) -> Node | None:
        """That broker as clients see it; None when it is not known to live."""
