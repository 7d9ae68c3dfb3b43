"""An installation as a database of DuckDB's, for one query."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import duckdb
import pyarrow as pa

from lakestream_spark.core.errors import LakestreamError, Rejected, Unavailable
from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.spark.reading.installation import Installation, Opened
from lakestream_spark.spark.reading.moment import Moment, now
from lakestream_spark.spark.reading.rows import RowReader
from lakestream_spark.sql.column_types import duckdb_type, quoted
from lakestream_spark.sql.references import Reference, references, sentence_of
from lakestream_spark.sql.stored_files import StoredFiles
from lakestream_spark.sql.table_half import table_half
from lakestream_spark.sql.topics import MAIN, Topics
from lakestream_spark.table.columns import ICEBERG_SCHEMA

_BATCH_ROWS: Final = 1000
_COLUMNS: Final = ", ".join(
    f"{quoted(each.name)} {duckdb_type(each.field_type)}" for each in ICEBERG_SCHEMA.fields
)
_BATCH: Final = "__lakestream_batch"


class Answer(NamedTuple):
    """The rows of a query, batch by batch, while its lake is open."""

    columns: tuple[str, ...]
    batches: Iterator[pa.RecordBatch]


@contextmanager
def answer(installation: Installation, query: str) -> Iterator[Answer]:
    """What the query finds in everything that is acknowledged by now."""
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="lakestream-sql-"))
        connection = stack.enter_context(closing(_connect(installation.catalog.name, folder)))
        named = references(connection, query)
        opened = stack.enter_context(closing(Opened(installation)))
        topics = Topics(
            opened.loop.run(opened.metadata.topics.list()), catalog=installation.catalog
        )
        views = _Views(connection, installation, opened)
        unknown = []
        for asked in named.tables:
            topic = topics.find(asked)
            if topic is None:
                unknown.append(asked)
            else:
                views.make(asked, topic)
        if named.lists_tables:
            views.list(topics.names)
        yield _asked(connection, query, topics, unknown)


def _connect(catalog: str, folder: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        config={
            "temp_directory": folder,
            "autoinstall_known_extensions": "false",
            # Names are topics, and never variables of this program.
            "python_enable_replacements": "false",
        }
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"ATTACH ':memory:' AS {quoted(catalog)}; USE {quoted(catalog)}")
    return connection


class _Views:
    """Makes a view of a topic under each name that the query has for it."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, installation: Installation, opened: Opened
    ) -> None:
        self._connection = connection
        self._installation = installation
        self._opened = opened
        self._wholes: dict[TopicId, str] = {}
        self._made: dict[tuple[str, str], TopicId] = {}

    def make(self, asked: Reference, topic: Topic) -> None:
        schema = MAIN if asked.schema in ("", self._installation.catalog.name) else asked.schema
        place = (schema.lower(), asked.name.lower())
        if self._made.setdefault(place, topic.id) != topic.id:
            raise Rejected(
                f"SQL does not tell {asked.name} from another topic of the query: name their "
                "tables (`lakestream topic list`)"
            )
        if topic.id not in self._wholes:
            self._wholes[topic.id] = self._whole(topic)
        self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
        self._connection.execute(
            f"CREATE VIEW IF NOT EXISTS {quoted(schema)}.{quoted(asked.name)} AS "
            f"{self._wholes[topic.id]}"
        )

    def list(self, names: list[str]) -> None:
        """The names alone, with the columns that every topic has."""
        for name in names:
            self._connection.execute(f"CREATE TABLE IF NOT EXISTS {quoted(name)} ({_COLUMNS})")

    def _whole(self, topic: Topic) -> str:
        """A query of both halves, which meet at the ends of one snapshot."""
        moment = now(self._opened, topic.name)
        number = len(self._wholes)
        tail = f"__lakestream_tail_{number}"
        self._fill(tail, moment)
        halves = [f"SELECT * FROM {quoted(tail)}"]
        if moment.table is not None:
            files = StoredFiles(moment.table.io, number)
            self._connection.register_filesystem(files)
            name = f"__lakestream_deleted_{number}"
            half = table_half(self._connection, files, moment.table, name)
            halves = [half, *halves] if half else halves
        return " UNION ALL BY NAME ".join(halves)

    def _fill(self, name: str, moment: Moment) -> None:
        # A table of DuckDB's and not of Arrow's: it goes to the disk when memory is short.
        self._connection.execute(f"CREATE TEMP TABLE {quoted(name)} ({_COLUMNS})")
        pieces = [piece for task in moment.tail for piece in task]
        if not pieces:
            return
        for batch in RowReader(installation=self._installation).read(pieces):
            self._connection.register(_BATCH, pa.Table.from_batches([batch]))
            self._connection.execute(f"INSERT INTO {quoted(name)} SELECT * FROM {_BATCH}")
            self._connection.unregister(_BATCH)


def _asked(
    connection: duckdb.DuckDBPyConnection, query: str, topics: Topics, unknown: list[Reference]
) -> Answer:
    try:
        reader = connection.execute(query).to_arrow_reader(_BATCH_ROWS)
    except duckdb.CatalogException as error:
        for asked in unknown:
            if f"Table with name {asked.name} " in str(error) or f".{asked.name}" in str(error):
                raise topics.unknown(asked) from None
        raise _said(error) from None
    except duckdb.Error as error:
        raise _said(error) from None
    return Answer(tuple(reader.schema.names), _told(reader))


def _told(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Through Arrow, an error of DuckDB's comes as one of the system's."""
    try:
        yield from reader
    except (OSError, duckdb.Error) as error:
        raise _said(error) from None


def _said(error: Exception) -> LakestreamError:
    text = sentence_of(error)
    return Unavailable(text) if text.startswith(("IO Error", "HTTP Error")) else Rejected(text)
