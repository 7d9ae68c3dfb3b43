"""The two clusters that every script runs against, and what is known to differ between them."""

from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import uuid4

Name = Literal["lakestream", "kafka"]
NAMES: Final[tuple[Name, ...]] = ("lakestream", "kafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster of one node."""

    name: Name
    bootstrap: str

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A known difference, explained in DIFFERENCES.md under its name."""

    name: str
    lakestream: Any
    kafka: Any

    def __post_init__(self) -> None:
        if self.lakestream == self.kafka:
            raise ValueError(f"{self.name}: both are expected to answer {self.kafka!r}")

    def on(self, cluster: Cluster) -> Any:
        """What this cluster is expected to answer."""
        return self.kafka if cluster.name == "kafka" else self.lakestream


def differs(name: str, /, *, lakestream: Any, kafka: Any) -> Difference:
    """An expectation for each cluster; a test sees to it that DIFFERENCES.md explains the name."""
    return Difference(name=name, lakestream=lakestream, kafka=kafka)


def unique(prefix: str) -> str:
    """A name for a topic or a group that no other test uses."""
    return f"{prefix}-{uuid4().hex[:10]}"
