"""A real SQL catalog whose commits go wrong as they do in a network; one knob for all of them."""

from collections.abc import Callable
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import CommitTableResponse, Table

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
    """Meets each commit with the next of `faults`, and with none when the list is empty."""

    faults: list[Fault]

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self.faults = []

    def commit_table(self, table: Table, *args: Any, **kwargs: Any) -> CommitTableResponse:
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
