"""pyiceberg's SQL catalog on PostgreSQL that waits for an answer for a bounded time.

What always holds: whatever the server does (waits for a lock, sleeps, lost its network), a call
ends with an error after `ANSWER_WITHIN_S`. The server is told to give a statement up a little
earlier, so that what waits there for a lock goes too; one that does not do so is cut off.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any, Final

from psycopg2.extensions import connection, cursor  # type: ignore[import-untyped]
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import event

CONNECT_WITHIN_S: Final = 10
ANSWER_WITHIN_S: Final = 30.0
_EARLIER: Final = 0.8


class BoundedSqlCatalog(SqlCatalog):
    """A database that hangs is an outage like any other: the caller reloads and looks."""

    def _init_catalog(self) -> None:
        event.listen(self.engine, "do_connect", _bound)
        super()._init_catalog()


def _bound(_dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> None:
    """What every new connection is made with."""
    give_up_ms = round(1000 * _EARLIER * ANSWER_WITHIN_S)
    own = f"-cstatement_timeout={give_up_ms}"
    options["options"] = f"{options.get('options', '')} {own}".strip()
    options.setdefault("connect_timeout", CONNECT_WITHIN_S)
    options["connection_factory"] = _Connection


class _Connection(connection):  # type: ignore[misc]
    """psycopg2 itself waits for ever."""

    def cursor(self, *arguments: Any, **options: Any) -> cursor:
        return super().cursor(*arguments, **{"cursor_factory": _Cursor, **options})

    def commit(self) -> None:
        with _cut_off(self):
            super().commit()

    def rollback(self) -> None:
        with _cut_off(self):
            super().rollback()


class _Cursor(cursor):  # type: ignore[misc]
    def execute(self, query: Any, vars: Any = None) -> None:  # noqa: A002 - its name in the base
        with _cut_off(self.connection):
            super().execute(query, vars)

    def executemany(self, query: Any, vars_list: Any) -> None:
        with _cut_off(self.connection):
            super().executemany(query, vars_list)


@contextmanager
def _cut_off(conn: connection) -> Iterator[None]:
    """Shut the socket down when the block takes too long; whoever waits on it gets an error."""
    if conn.closed:
        yield
        return
    # Of our own: it names the same socket whatever becomes of the connection meanwhile.
    descriptor = os.dup(conn.fileno())
    timer = Timer(ANSWER_WITHIN_S, _shut_down, (descriptor,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        os.close(descriptor)


def _shut_down(descriptor: int) -> None:
    own = socket.socket(fileno=os.dup(descriptor))
    with own:
        own.shutdown(socket.SHUT_RDWR)
