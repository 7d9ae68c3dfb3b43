"""Where a topic's table is: its name, its location, its file names and its properties.

The name comes from the topic's name, by one rule:
- a topic of lower-case letters, digits and single underscores between them is the table's name;
- any other topic is lower-cased, each run of other characters becomes one underscore, and eight
  digits of the SHA-256 of the topic's name follow, so that `a.b` and `a-b` get two tables;
- a name has at most 218 characters: what is longer is cut, and ends in those digits as well. So
  the folder with the topic's id and the name of a table set aside are no longer than the 255
  characters that file systems and catalogs allow.

The namespace is `streams`. The setting `lakestream.table.name` names the table otherwise, with a
namespace (`sales.orders`) or without, and renames it when it changes.

The location contains the topic's id, so a topic that is deleted and created again shares nothing;
it never changes, whatever the table is called. At the first commit of the new topic the old table,
if it was kept, is renamed `<name>__<first eight digits of its topic's id>`.
Names below it that start with an underscore are left alone by Delta's VACUUM.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final
from uuid import UUID

from lakestream_spark.core.errors import Corrupt
from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topic_config.lakestream import NAMESPACE

TOPIC_ID_PROPERTY: Final = "lakestream.topic-id"
TOPIC_NAME_PROPERTY: Final = "lakestream.topic"
ENDS_PROPERTY: Final = "lakestream.ends"
COMMIT_ID_PROPERTY: Final = "lakestream.commit-id"
UPKEEP_PROPERTY: Final = "lakestream.upkeep"
"""In the summary of a snapshot that upkeep made: what for."""
OWNER_PROPERTY: Final = "owner"
PROFILE_PROPERTY: Final = "lakestream.profile"
LAG_PROPERTY: Final = "lakestream.lag-ms"
DEFAULT_OWNER: Final = "lakestream"

_MAX_NAME: Final = 255 - len("-") - 36
"""What a file system leaves for a name before the topic's id."""
_DIGITS: Final = 8
_PLAIN: Final = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_OTHER: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """The names of one incarnation of a topic's table below a warehouse URL."""

    warehouse: str
    topic_id: TopicId
    topic_name: str
    config: Mapping[str, str] = field(default_factory=dict)
    """The topic's settings, if the caller knows them: no path below `location` depends on them."""

    @property
    def identifier(self) -> tuple[str, str]:
        return TopicConfig.of(self.config).table or (NAMESPACE, table_name(self.topic_name))

    @property
    def location(self) -> str:
        root = self.warehouse.rstrip("/")
        return f"{root}/{NAMESPACE}/{table_name(self.topic_name)}-{self.topic_id}"

    def properties(self) -> dict[str, str]:
        """What a new table carries; nobody but our own upkeep deletes its files."""
        # Here and not above: the columns load pyiceberg, and names of tables are asked for often.
        from lakestream_spark.table.columns import OFFSET, PARTITION, TIMESTAMP

        return {
            OWNER_PROPERTY: DEFAULT_OWNER,
            **self.settings(),
            "format-version": "2",
            "gc.enabled": "false",
            "write.data.path": f"{self.location}/_data",
            "write.metadata.path": f"{self.location}/_iceberg",
            "write.parquet.compression-codec": "zstd",
            "write.metadata.metrics.default": "counts",
            f"write.metadata.metrics.column.{PARTITION}": "full",
            f"write.metadata.metrics.column.{OFFSET}": "full",
            f"write.metadata.metrics.column.{TIMESTAMP}": "full",
            TOPIC_ID_PROPERTY: str(self.topic_id),
        }

    def settings(self) -> dict[str, str]:
        """What the table says of its topic; brought up to date by the commit after a change."""
        config = TopicConfig.of(self.config)
        return {
            TOPIC_NAME_PROPERTY: self.topic_name,
            PROFILE_PROPERTY: config.profile,
            LAG_PROPERTY: str(config.table_lag_ms),
            # One that people set on the table stays, unless the topic names another.
            **({OWNER_PROPERTY: config.owner} if config.owner else {}),
        }

    def set_aside(self, other: str) -> tuple[str, str]:
        """The name for a table of another topic id that has ours: an earlier life of the topic."""
        namespace, name = self.identifier
        return (namespace, f"{name}__{other.replace('-', '')[:_DIGITS]}")

    def data_file(self, partition: int, first: int, next_offset: int, attempt: UUID) -> str:
        """A name no other attempt has: a rewritten name of another size would break readers."""
        return (
            f"{self.location}/_data/{partition}/"
            f"{self.topic_id}-{partition}-{first:020d}-{next_offset:020d}-{attempt.hex}.parquet"
        )

    def quarantined_batch(self, partition: int, first: int, attempt: UUID) -> str:
        """Where the bytes of a batch go whose content contradicts its header."""
        return f"{self.location}/_quarantine/{partition}/{first:020d}-{attempt.hex}.batch"


def table_name(topic_name: str) -> str:
    """The table's name for a topic, by the rule at the head of this module."""
    if _PLAIN.fullmatch(topic_name) and len(topic_name) <= _MAX_NAME:
        return topic_name
    stem = _OTHER.sub("_", topic_name.lower()).strip("_") or "topic"
    short = stem[: _MAX_NAME - _DIGITS - 1].rstrip("_")
    return f"{short}_{sha256(topic_name.encode()).hexdigest()[:_DIGITS]}"


def encode_ends(ends: Mapping[int, int]) -> str:
    """The ends of partitions 0, 1, 2, … as one short text; a partition without rows ends at 0."""
    return ",".join(str(ends.get(partition, 0)) for partition in range(max(ends, default=-1) + 1))


def decode_ends(text: str) -> dict[int, int]:
    """Raises `Corrupt` for a text that is none of ours."""
    numbers = text.split(",") if text else []
    if not all(_NUMBER.fullmatch(number) for number in numbers):
        raise Corrupt("the ends of a table are not numbers", ends=text)
    return {partition: int(end) for partition, end in enumerate(numbers)}
