"""Brings a metadata store to this software's schema when it is opened.

What always holds: a store is upgraded by one transaction or not touched; two processes that start
at once upgrade it once; a store written by a newer version is refused before anything is read.
Revisions are Alembic's, rendered to SQL, so that no second database driver is needed.
"""

from pathlib import Path
from typing import Final

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.metadata.database import Database, Execute, Transaction
from lakestream_spark.metadata.version import locked_version

MIGRATIONS: Final = Path(__file__).parent / "migrations"


async def migrate(database: Database, *, migrations: Path = MIGRATIONS, to: str = "head") -> None:
    """Upgrade the store to revision `to`, or raise `Misconfigured` if it knows a newer one."""
    script = ScriptDirectory(str(migrations))
    await database.run(_upgrade(script, database.dialect_name, to))


def _upgrade(script: ScriptDirectory, dialect_name: str, to: str) -> Transaction[None]:
    pending = _pending(script, (yield from locked_version()), to)
    for revision in pending:
        for sql in render(revision, dialect_name):
            yield Execute(sql)
    if pending:
        yield Execute("DELETE FROM alembic_version")
        yield Execute("INSERT INTO alembic_version VALUES ($1)", (pending[-1].revision,))


def _pending(script: ScriptDirectory, current: str | None, to: str) -> list[Script]:
    """The revisions after `current` up to `to`, oldest first."""
    newest_first = list(script.walk_revisions("base", to))
    known = [revision.revision for revision in newest_first]
    if current is None:
        return newest_first[::-1]
    if current not in known:
        raise Misconfigured(
            f"the metadata store has schema version {current}, this software knows up to "
            f"{known[0]}: run the version of lakestream-spark that upgraded it, or a newer one"
        )
    return newest_first[: known.index(current)][::-1]


def render(revision: Script, dialect_name: str) -> list[str]:
    """The SQL statements of one revision."""
    sink = _Sink()
    context = MigrationContext.configure(
        dialect_name=dialect_name, opts={"as_sql": True, "output_buffer": sink}
    )
    with Operations.context(context):
        revision.module.upgrade()
    return sink.statements


class _Sink:
    """Takes each statement as Alembic prints it."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def write(self, text: str) -> None:
        if statement := text.strip().removesuffix(";"):
            self.statements.append(statement)

    def flush(self) -> None:
        """Alembic calls it after each statement."""
