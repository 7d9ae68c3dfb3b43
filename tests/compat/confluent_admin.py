"""The names of confluent-kafka's administration, which its types do not export, and waiting for it.

Kafka answers when the controller has made a change; the broker tells of it a moment later.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

WITHIN_S: Final = 120


def until(condition: Callable[[], Any]) -> None:
    """Wait until the cluster tells of a change that it has made."""
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, "the change was never seen"
        time.sleep(0.05)


def create_topic(
    admin: AdminClient, name: str, partitions: int = 1, config: dict[str, str] | None = None
) -> None:
    """Make a topic and wait until every client can see it."""
    wanted = NewTopic(name, partitions, 1, config=config or {})
    admin.create_topics([wanted])[name].result(WITHIN_S)
    until(lambda: len(partitions_of(admin, name)) == partitions)


def partitions_of(admin: AdminClient, name: str) -> set[int]:
    """The partitions that have a leader."""
    listed = admin.list_topics(timeout=WITHIN_S).topics.get(name)
    found = listed.partitions.values() if listed is not None else ()
    return {each.id for each in found if each.error is None}


__all__ = [
    "WITHIN_S",
    "AdminClient",
    "AlterConfigOpType",
    "ConfigEntry",
    "ConfigResource",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "ResourceType",
    "create_topic",
    "partitions_of",
    "until",
]
