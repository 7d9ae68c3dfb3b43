"""A real SQL catalog whose commits go wrong as they do in a network; one knob for all of them."""

from collections.abc import Callable
from threading import Event
from typing import Any, ClassVar

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.typedef import Identifier

from lakestream_spark.table.iceberg import CatalogSpec

Call = Callable[[], CommitTableResponse]
Fault = Callable[[Call], CommitTableResponse]


def commits_and_raises(call: Call) -> CommitTableResponse:
    call()
    raise ConnectionResetError("the answer was lost")


def raises_before(call: Call) -> CommitTableResponse:
    raise ConnectionRefusedError("nobody is there")


def times_out_after_the_commit(call: Call) -> CommitTableResponse:
    call()
    raise TimeoutError("no answer in time")


def answers_conflict_to_its_own_repetition(call: Call) -> CommitTableResponse:
    """As a proxy does that sends a request again whose answer it lost."""
    call()
    return call()


class FaultyCatalog(SqlCatalog):
    """Meets each commit with the next of `faults`, and with none when the list is empty; while it
    is away it answers nothing."""

    faults: list[Fault]
    is_away: ClassVar = Event()
    """Of all of them, as of one server; clear it at the end."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self.faults = []

    def load_table(self, identifier: str | Identifier) -> Table:
        self._answer()
        return super().load_table(identifier)

    def _answer(self) -> None:
        if self.is_away.is_set():
            raise ConnectionRefusedError("nobody is there")

    def commit_table(self, table: Table, *args: Any, **kwargs: Any) -> CommitTableResponse:
        self._answer()

        def call() -> CommitTableResponse:
            return SqlCatalog.commit_table(self, table, *args, **kwargs)

        fault = self.faults.pop(0) if self.faults else None
        return call() if fault is None else fault(call)


def faulty(spec: CatalogSpec) -> CatalogSpec:
    """The same catalog, opened by way of `FaultyCatalog`."""
    own = {key: value for key, value in spec.properties.items() if key != "type"}
    implementation = f"{FaultyCatalog.__module__}.{FaultyCatalog.__name__}"
    properties = {**own, "py-catalog-impl": implementation}
    return CatalogSpec(name=spec.name, warehouse=spec.warehouse, properties=properties)
