"""The Delta log beside an Iceberg table: where it is, how it is opened, made and written to.

What always holds: a commit goes through the handle that was looked at and is tried once, so it
lands right behind the version whose marks were read, or not at all. Each of our commits leaves two
marks, the Iceberg sequence number it mirrors and its own Delta version: a log whose newest version
is not the marked one was written to by somebody else.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from lakestream_spark.core.errors import Corrupt, Rejected, Unavailable
from lakestream_spark.core.ids import TopicId
from lakestream_spark.table.columns import PARTITION
from lakestream_spark.table.delta_damage import LogFolder
from lakestream_spark.table.delta_options import storage_options
from lakestream_spark.table.places import canonical

CONFIGURATION: Final = {
    "delta.appendOnly": "true",
    # Endless: files leave by our own upkeep, which knows what Iceberg still needs.
    "delta.deletedFileRetentionDuration": "interval 36500 days",
    # Longer than a file outlives its removal: an older version could not be read anyway.
    "delta.logRetentionDuration": "interval 2 days",
    "delta.enableExpiredLogCleanup": "false",
}
_REMEDY: Final = "lakestream maintain --once, which sets it aside and makes it anew"
_LONGEST: Final = 200
_PROTECTION: Final = ("delta.appendOnly", "delta.deletedFileRetentionDuration")
_UPKEEP_DOES_IT: Final = PostCommitHookProperties(
    create_checkpoint=False, cleanup_expired_logs=False
)


class Marks(NamedTuple):
    """What our newest commit says of itself; None before the first."""

    sequence_number: int | None
    version: int | None


def uri(table: Table) -> str:
    """The table's root, as delta-rs opens it."""
    # A path and not a URL: delta-rs would decode what Iceberg takes literally.
    return canonical(table.location())


def options(table: Table) -> dict[str, str]:
    """How delta-rs reaches the table's files."""
    return storage_options(table.location(), table.io.properties)


def open_log(table: Table) -> DeltaTable | None:
    """The log at its newest version; None if there is none, `Corrupt` if it cannot be one."""
    try:
        log = DeltaTable(uri(table), storage_options=options(table))
    except TableNotFoundError:
        return None
    except (DeltaError, OSError) as error:
        damage = LogFolder(table).damage()
        if damage is not None:
            raise Corrupt(
                f"the Delta log is damaged: {damage}", root=table.location(), remedy=_REMEDY
            ) from error
        told = str(error).partition("\n")[0][:_LONGEST]
        raise Unavailable(f"the Delta log cannot be read: {told}", table=table.name()) from error
    if log.metadata().partition_columns != [PARTITION]:
        raise Rejected(
            "somebody made another Delta table over this one; "
            "remove the folder _delta_log below its root, and it is made anew",
            root=table.location(),
        )
    return log


def create_log(table: Table) -> None:
    """An empty Delta table with the columns of the Iceberg table, unless there is one already."""
    try:
        DeltaTable.create(
            uri(table),
            delta_schema(table),
            mode="ignore",
            partition_by=[PARTITION],
            name=table.name()[-1],
            configuration=CONFIGURATION,
            storage_options=options(table),
            # Tried again it would land behind what another process wrote, as a second beginning.
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    except CommitFailedError:
        return  # Another process was first.
    except (DeltaError, OSError) as error:
        raise Unavailable(f"the Delta log cannot be made: {error}", table=table.name()) from error


def bring_up_to_date(log: DeltaTable, table: Table) -> bool:
    """Whether the log got columns that Iceberg has and it had not, or got back what protects its
    files, and must be opened again."""
    known = {field.name for field in log.schema().fields}
    missing = [field for field in delta_schema(table).fields if field.name not in known]
    configuration = log.metadata().configuration
    lost = {k: CONFIGURATION[k] for k in _PROTECTION if configuration.get(k) != CONFIGURATION[k]}
    try:
        if missing:
            log.alter.add_columns(missing)
        elif lost:
            log.alter.set_table_properties(lost)
    except CommitFailedError:
        return True  # Another process was first.
    except (DeltaError, OSError) as error:
        raise Unavailable(
            f"the Delta log cannot be written: {error}", table=table.name()
        ) from error
    return bool(missing or lost)


def marks(log: DeltaTable, topic_id: TopicId) -> Marks:
    return Marks(
        log.transaction_version(str(topic_id)), log.transaction_version(_version_app(topic_id))
    )


def commit(
    log: DeltaTable,
    topic_id: TopicId,
    sequence_number: int,
    actions: Sequence[AddAction | RemoveAction],
) -> bool:
    """One try, right behind the version of `log`; False when somebody else was there first."""
    version = log.version() + 1
    properties = CommitProperties(
        max_commit_retries=0,
        app_transactions=[
            Transaction(str(topic_id), sequence_number),
            Transaction(_version_app(topic_id), version),
        ],
    )
    try:
        log.create_write_transaction(
            list(actions),
            mode="append",
            schema=log.schema(),
            partition_by=[PARTITION],
            commit_properties=properties,
            post_commithook_properties=_UPKEEP_DOES_IT,
        )
    except CommitFailedError:
        return False
    except (DeltaError, OSError) as error:
        raise Unavailable(f"the Delta log cannot be written: {error}", topic=topic_id) from error
    return True


def delta_schema(table: Table) -> Schema:
    """The table's columns with their comments."""
    arrow = schema_to_pyarrow(table.schema())
    return Schema.from_arrow(pa.schema([_commented(field, field.nullable) for field in arrow]))


def _commented(field: pa.Field, nullable: bool = True) -> pa.Field:
    # Spark refuses to change a Delta table that has something NOT NULL inside a column.
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_commented(kind.field(i)) for i in range(kind.num_fields)])
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = pa.list_(_commented(kind.value_field))
    doc = (field.metadata or {}).get(b"doc")
    return pa.field(field.name, kind, nullable, {b"comment": doc} if doc else None)


def _version_app(topic_id: TopicId) -> str:
    return f"{topic_id}/version"
