"""Identities: topics, partitions of a topic, brokers, WAL segments.

A topic's identity is its id, never its name: one that is deleted and created again shares nothing
with its predecessor. A WAL segment's identity is (broker id, broker epoch, n); epochs are handed
out by one counter for the whole metadata store, so no two registrations ever share one.
"""

from typing import NamedTuple, NewType
from uuid import UUID

TopicId = NewType("TopicId", UUID)
BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)

NO_PRODUCER = ProducerId(-1)
"""The producer id of a batch whose producer is not idempotent."""


class TopicPartition(NamedTuple):
    """A partition of one incarnation of a topic."""

    topic_id: TopicId
    number: int

    def __str__(self) -> str:
        return f"{self.topic_id}-{self.number}"


class SegmentId(NamedTuple):
    """The identity of a WAL segment; `n` counts up from 1 within one broker epoch."""

    broker_id: BrokerId
    broker_epoch: int
    n: int

    def __str__(self) -> str:
        return f"{self.broker_id}/{self.broker_epoch}/{self.n}"
