"""Settings of our own: the topic's profile and its table."""

from typing import Final

from lakestream_spark.metadata.topic_config.kinds import Setting, list_of, long, matching, one_of

PREFIX: Final = "lakestream."
TABLE_NAME: Final = f"{PREFIX}table.name"
OWNER: Final = f"{PREFIX}owner"

OURS: Final = (
    Setting(
        name=f"{PREFIX}profile",
        takes=one_of("cost", "latency"),
        default="cost",
        doc="cost writes large WAL segments to the bucket; latency writes small ones to faster "
        "storage and acknowledges within milliseconds.",
    ),
    Setting(
        name=f"{PREFIX}table.formats",
        takes=list_of("iceberg|delta", "iceberg, or iceberg,delta", needs=("iceberg",)),
        default="iceberg",
        doc="The formats under which the table's files can be read.",
    ),
    Setting(
        name=f"{PREFIX}table.lag.ms",
        takes=long(1_000, 900_000),
        default="60000",
        doc="An acknowledged record is in the table within this time.",
    ),
    Setting(
        name=TABLE_NAME,
        takes=matching(
            r"(?=.{1,128}$)[a-z0-9]+(_[a-z0-9]+)*",
            "at most 128 lower-case letters and digits with single underscores between them, not "
            "ending in an underscore and eight hex digits (such names are made from topics')",
            unless=r"_[0-9a-f]{8}$",
        ),
        default="",
        doc="The table's name; empty makes it from the topic's name. No two live topics share one.",
    ),
    Setting(
        name=OWNER,
        takes=matching(r"[^'\x00-\x1f]{0,128}", "at most 128 characters, no quotes among them"),
        default="",
        doc="Who answers for the stream; the table's property `owner` says so.",
    ),
    Setting(
        name=f"{PREFIX}table.on.delete",
        takes=one_of("keep", "drop"),
        default="keep",
        doc="What becomes of the table when the topic is deleted.",
    ),
    Setting(
        name=f"{PREFIX}table.retention.ms",
        takes=long(-1),
        default="-1",
        doc="Rows older than this leave the table; -1 keeps them for ever.",
    ),
)
