"""What a transaction is here: a generator that yields statements and receives rows.

No transaction does I/O itself, so one text serves SQLite and PostgreSQL, and a whole transaction
can run inside the thread of an SQLite connection without a hop per statement. SQL is written in
PostgreSQL's words (`$1`, `= ANY($1::bigint[])`, `FOR UPDATE`); `dialect` turns it into SQLite's.

What always holds: a `Database` runs all statements of a transaction or none. An exception raised
inside the generator rolls back. A generator runs once; to repeat a transaction make it again.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

Value: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = list[Row]
Given: TypeAlias = Mapping[str, str]
"""Names and PostgreSQL types of the columns of the rows a set-based statement works on."""

BIGINT: Final = "bigint"
INT: Final = "integer"
TEXT: Final = "text"
BYTES: Final = "bytea"


class Fetch(NamedTuple):
    """One statement whose rows come back. A list among the arguments goes with `= ANY($n::t[])`."""

    sql: str
    args: tuple[Value | Sequence[Value], ...] = ()


class Execute(NamedTuple):
    """One statement whose rows nobody wants."""

    sql: str
    args: tuple[Value | Sequence[Value], ...] = ()


class FetchMany(NamedTuple):
    """A SELECT done for each of `rows`, whose columns it names `r.<column>`; order is undefined."""

    sql: str
    given: Given
    rows: Sequence[Row]


class InsertMany(NamedTuple):
    """Insert `rows` into a table; `on_conflict` is the text after ON CONFLICT."""

    table: str
    given: Given
    rows: Sequence[Row]
    on_conflict: str | None = None


class UpdateMany(NamedTuple):
    """For each of `rows`, set the given columns in the table's row with the same `key` columns."""

    table: str
    key: tuple[str, ...]
    given: Given
    rows: Sequence[Row]


class DeleteMany(NamedTuple):
    """For each of `rows` (`r.<column>`), delete the table's rows that satisfy `where`.

    The columns named in `returning` come back for each deleted row, in no order.
    """

    table: str
    where: str
    given: Given
    rows: Sequence[Row]
    returning: str


class Exclusive(NamedTuple):
    """Wait until no other transaction that asked for the same key is open."""

    key: int


class Notify(NamedTuple):
    """Wake whoever waits in `changed`, at other brokers too, once this transaction is committed."""


Many: TypeAlias = FetchMany | InsertMany | UpdateMany | DeleteMany
Statement: TypeAlias = Fetch | Execute | Many | Exclusive | Notify
Transaction: TypeAlias = Generator[Statement, Rows, T]


class Database(Protocol):
    """Runs transactions on one store."""

    @property
    def dialect_name(self) -> str:
        """`sqlite` or `postgresql`, as Alembic names them."""

    async def run(self, tx: Transaction[T]) -> T:
        """The result of a transaction, durable. Raises `Unavailable` when nothing happened and
        `OutcomeUnknown` when it cannot be known whether it was committed."""

    async def read(self, tx: Transaction[T]) -> T:
        """The result of a transaction that only reads, all of it from one snapshot."""

    async def changed(self, within_s: float) -> None:
        """Return when somebody, here or elsewhere, may have committed a `Notify` since the last
        call, at the latest after `within_s`. May return too early, never too late."""

    async def close(self) -> None:
        """Release connections and threads; transactions under way end first."""
