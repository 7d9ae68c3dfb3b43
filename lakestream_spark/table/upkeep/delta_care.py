"""Care of the Delta log: checkpoints, so that it opens quickly, and old entries that go."""

import json
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyiceberg.table import Table

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.table import delta_log
from lakestream_spark.table.upkeep.folder import TableFolder

_LAST_CHECKPOINT: Final = "_delta_log/_last_checkpoint"


def checkpoint_version(folder: TableFolder) -> int:
    """The version of the newest checkpoint; -1 before the first."""
    text = folder.read_bytes(_LAST_CHECKPOINT)
    try:
        return -1 if text is None else int(json.loads(text)["version"])
    except (ValueError, KeyError, TypeError):
        return -1


def care(table: Table, folder: TableFolder, checkpoint_after: int) -> int | None:
    """The version of the checkpoint that was written, if it was time for one.

    What is older than the log's retention and below a checkpoint is deleted with it.
    """
    log = delta_log.open_log(table)
    if log is None or log.version() - checkpoint_version(folder) < checkpoint_after:
        return None
    return _write(log)


def _write(log: DeltaTable) -> int:
    try:
        log.create_checkpoint()
        log.cleanup_metadata()
    except (DeltaError, OSError) as error:
        raise Unavailable(f"the Delta log cannot be kept up: {error}") from error
    return log.version()
