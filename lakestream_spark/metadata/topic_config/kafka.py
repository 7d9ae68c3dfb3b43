"""Settings with Kafka's names. Those in `ACCEPTED` steer files and replicas that are not here: they
are stored and shown, so that tools which send them go on working, and do nothing else."""

from typing import Final

from lakestream_spark.metadata.topic_config.kinds import (
    LONG_MAX,
    Setting,
    Takes,
    boolean,
    list_of,
    long,
    one_of,
    real,
    whole,
)

COMPRESSION_TYPES: Final = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
APPEND_TIME: Final = "LogAppendTime"

ACTING: Final = (
    Setting(
        name="cleanup.policy",
        takes=list_of("delete|compact", "delete, compact, or both with a comma between them"),
        default="delete",
        server_name="log.cleanup.policy",
        doc="With delete, records leave by retention.ms and retention.bytes. With compact, every "
        "record needs a key; older records of a key may stay. Empty keeps everything.",
    ),
    Setting(
        name="compression.type",
        takes=one_of(*COMPRESSION_TYPES),
        default="producer",
        server_name="compression.type",
        doc="How batches are compressed when they are made anew from the table. What is still in "
        "the WAL is handed out as the producer sent it.",
    ),
    Setting(
        name="max.message.bytes",
        takes=whole(0),
        default="1048588",
        server_name="message.max.bytes",
        doc="The largest record batch that is accepted, as sent and with its header.",
    ),
    Setting(
        name="message.timestamp.type",
        takes=one_of("CreateTime", APPEND_TIME),
        default="CreateTime",
        server_name="log.message.timestamp.type",
        doc="CreateTime keeps the producer's timestamps, LogAppendTime puts the broker's in place.",
    ),
    Setting(
        name="min.insync.replicas",
        takes=whole(1),
        default="1",
        server_name="min.insync.replicas",
        doc="Always met: a record is acknowledged after the object store and the metadata store "
        "hold it, whatever the number of replicas.",
    ),
    Setting(
        name="retention.bytes",
        takes=long(-1),
        default="-1",
        server_name="log.retention.bytes",
        doc="A partition's oldest records can no longer be consumed once the newer ones take this "
        "many bytes; -1 sets no limit. The table keeps its rows.",
    ),
    Setting(
        name="retention.ms",
        takes=long(-1),
        default="-1",
        server_name="log.retention.ms",
        doc="Records older than this can no longer be consumed; -1 keeps them for ever, because "
        "the log is the table. The table keeps its rows.",
    ),
)
"""Those that mean something here."""

_REPLICAS: Final = list_of(r"\*|none|[0-9]+:[0-9]+", "*, none, or pairs partition:broker")
_FLAG: Final = boolean()
_NO_LIMIT: Final = str(LONG_MAX)


def _accepted(name: str, takes: Takes, default: str, server_name: str | None, what: str) -> Setting:
    doc = f"{what} Accepted for Kafka's tools; it changes nothing here."
    return Setting(
        name=name, takes=takes, default=default, server_name=server_name, doc=doc, acts=False
    )


_FILES: Final = "About the files of a Kafka log."
_FLUSH: Final = "When a Kafka broker syncs its files; here every acknowledged record is stored."
_CLEANER: Final = "About Kafka's log cleaner."
_LEVEL: Final = "The level for compression by a Kafka broker."
_TIME: Final = "How far a producer's timestamps may be from the broker's clock; not checked."
_REPLICATION: Final = "About copies between Kafka brokers."
_TIERED: Final = "About Kafka's tiered storage; here all of the log is in the object store."

ACCEPTED: Final = tuple(
    _accepted(*row)
    for row in (
        ("compression.gzip.level", whole(-1, 9), "-1", "compression.gzip.level", _LEVEL),
        ("compression.lz4.level", whole(1, 17), "9", "compression.lz4.level", _LEVEL),
        ("compression.zstd.level", whole(-131072, 22), "3", "compression.zstd.level", _LEVEL),
        (
            "delete.retention.ms",
            long(0),
            "86400000",
            "log.cleaner.delete.retention.ms",
            _CLEANER,
        ),
        ("file.delete.delay.ms", long(0), "60000", "log.segment.delete.delay.ms", _FILES),
        ("flush.messages", long(1), _NO_LIMIT, "log.flush.interval.messages", _FLUSH),
        ("flush.ms", long(0), _NO_LIMIT, "log.flush.interval.ms", _FLUSH),
        ("follower.replication.throttled.replicas", _REPLICAS, "", None, _REPLICATION),
        ("index.interval.bytes", whole(0), "4096", "log.index.interval.bytes", _FILES),
        ("leader.replication.throttled.replicas", _REPLICAS, "", None, _REPLICATION),
        ("local.retention.bytes", long(-2), "-2", "log.local.retention.bytes", _TIERED),
        ("local.retention.ms", long(-2), "-2", "log.local.retention.ms", _TIERED),
        (
            "max.compaction.lag.ms",
            long(1),
            _NO_LIMIT,
            "log.cleaner.max.compaction.lag.ms",
            _CLEANER,
        ),
        (
            "message.timestamp.after.max.ms",
            long(0),
            _NO_LIMIT,
            "log.message.timestamp.after.max.ms",
            _TIME,
        ),
        (
            "message.timestamp.before.max.ms",
            long(0),
            _NO_LIMIT,
            "log.message.timestamp.before.max.ms",
            _TIME,
        ),
        (
            "min.cleanable.dirty.ratio",
            real(0, 1),
            "0.5",
            "log.cleaner.min.cleanable.ratio",
            _CLEANER,
        ),
        ("min.compaction.lag.ms", long(0), "0", "log.cleaner.min.compaction.lag.ms", _CLEANER),
        ("preallocate", _FLAG, "false", "log.preallocate", _FILES),
        ("remote.log.copy.disable", _FLAG, "false", None, _TIERED),
        ("remote.log.delete.on.disable", _FLAG, "false", None, _TIERED),
        ("remote.storage.enable", boolean(only=False), "false", None, _TIERED),
        ("segment.bytes", whole(14), "1073741824", "log.segment.bytes", _FILES),
        ("segment.index.bytes", whole(4), "10485760", "log.index.size.max.bytes", _FILES),
        ("segment.jitter.ms", long(0), "0", "log.roll.jitter.ms", _FILES),
        ("segment.ms", long(1), "604800000", "log.roll.ms", _FILES),
        (
            "unclean.leader.election.enable",
            _FLAG,
            "false",
            "unclean.leader.election.enable",
            _REPLICATION,
        ),
    )
)
"""Those that are only stored and shown."""
