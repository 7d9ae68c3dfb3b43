"""The names of confluent-kafka's administration, which its types do not export."""

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

__all__ = [
    "AdminClient",
    "AlterConfigOpType",
    "ConfigEntry",
    "ConfigResource",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "ResourceType",
]
