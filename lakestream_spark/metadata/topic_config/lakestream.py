"""Settings of our own: the topic's profile and its table."""

from typing import Final

from lakestream_spark.metadata.topic_config.kinds import Setting, list_of, long, matching, one_of

PREFIX: Final = "lakestream."
TABLE_NAME: Final = f"{PREFIX}table.name"
NAMESPACE: Final = "streams"
"""Where tables are whose topics name no other namespace."""
_KEPT: Final = ("information_schema", "system", "global_temp")
"""Namespaces that engines keep for themselves: SQL's own, Iceberg's procedures, Spark's views."""
_WORDS: Final = "[a-z0-9]+(_[a-z0-9]+)*"
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
            rf"(?=.{{1,128}}$)({_WORDS}\.)?{_WORDS}",
            "a name, or a namespace, a dot and a name: at most 128 lower-case letters and digits "
            "with single underscores between them, not ending in an underscore and eight hex "
            "digits (such names are made from topics'), and no namespace that engines keep for "
            f"themselves ({', '.join(_KEPT)})",
            unless=rf"_[0-9a-f]{{8}}$|^({'|'.join(_KEPT)})\.",
        ),
        default="",
        doc="The table's name, in the namespace streams unless it names another, which is made "
        "when it is missing (sales.orders). Empty makes it from the topic's name. No two live "
        "topics share one.",
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


def table_identifier(name: str) -> tuple[str, str]:
    """The namespace and the name of the table that the setting calls this."""
    namespace, _, own = name.rpartition(".")
    return (namespace or NAMESPACE, own)
