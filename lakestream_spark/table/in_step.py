"""Whether a table and the metadata store are of one time.

Pure. What always holds while nobody puts an older state of either back: the store is told of a
commit after the table has it, so the table is never behind the store; and the table has only what
the store gave out, by commits that the store was told of before they were made.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from lakestream_spark.core.errors import RedTable
from lakestream_spark.wal.ports import PartitionEnds

Known: TypeAlias = Mapping[int, PartitionEnds]
"""What the metadata store says of a topic's partitions."""
NOTHING_KNOWN: Final[Known] = MappingProxyType({})
NEWER_BACKUP: Final = (
    "stop the brokers and restore a newer back-up of the metadata store: this one is older than "
    "the table, and offsets may have been given out twice since"
)


def table_ends(known: Known) -> dict[int, int]:
    """The ends that the table had when the store was last told, of partitions that have any."""
    return {partition: each.table_end for partition, each in known.items() if each.table_end}


def is_behind(ends: Mapping[int, int], known: Known) -> int | None:
    """The first partition of which the table has lost what it had; read `known` first."""
    wanted = table_ends(known)
    return next((p for p in sorted(wanted) if ends.get(p, 0) < wanted[p]), None)


def check_not_beyond(ends: Mapping[int, int], known: Known, snapshot_id: int | None) -> None:
    """Raises `RedTable` when the table has offsets that the store has not given out."""
    for partition, end in sorted(ends.items()):
        given = known[partition].high_watermark if partition in known else 0
        if end > given:
            raise RedTable(
                f"the table has partition {partition} up to offset {end}, but the metadata store "
                f"knows no more than {given}: it was restored from an older back-up",
                snapshot_id=snapshot_id,
                remedy=NEWER_BACKUP,
            )


def check_equal(ends: Mapping[int, int], known: Known, snapshot_id: int | None) -> None:
    """Raises `RedTable` when the table has commits that the store has not been told of.

    For the holder of the table's lease who has no commit under way.
    """
    for partition, each in sorted(known.items()):
        end = ends.get(partition, 0)
        if end > each.table_end:
            raise RedTable(
                f"the table has partition {partition} up to offset {end}, but the metadata store "
                f"was told of {each.table_end} only: it was restored from an older back-up",
                snapshot_id=snapshot_id,
                remedy=NEWER_BACKUP,
            )
