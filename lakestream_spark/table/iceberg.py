"""Stream tables in an Iceberg catalog: find, create, append exactly once, drop.

An append is decided on the same metadata that it is committed against: it goes ahead only if the
table's own ends are the ones it starts from. The catalog refuses it when anything changed since,
and nothing here tries again by itself. A table is its topic's by the topic id among its properties,
not by its name. Every call blocks; callers run it in a thread.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Self

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import Identifier

from lakestream_spark.core.errors import RedTable, Unavailable
from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata.topic_config.lakestream import NAMESPACE
from lakestream_spark.table import earlier, folders, in_step
from lakestream_spark.table.append import TableAppend, TableState, Verdict, commit_ids_of, decide
from lakestream_spark.table.columns import ICEBERG_SCHEMA, PARTITION_SPEC, SORT_ORDER
from lakestream_spark.table.foreign import check_foreign_changes
from lakestream_spark.table.in_step import NOTHING_KNOWN, Known
from lakestream_spark.table.lawful import LawfulView
from lakestream_spark.table.layout import (
    ENDS_PROPERTY,
    TOPIC_ID_PROPERTY,
    TableLayout,
    encode_ends,
)
from lakestream_spark.table.outage import DAMAGES, asking
from lakestream_spark.table.places import canonical
from lakestream_spark.table.remedies import Remedies
from lakestream_spark.table.spec import CatalogSpec
from lakestream_spark.table.transactions import commit

__all__ = ["CatalogSpec", "StreamCatalog"]


class StreamCatalog:
    """The stream tables of one catalog."""

    def __init__(self, spec: CatalogSpec, catalog: Catalog) -> None:
        self._spec = spec
        self._catalog = catalog
        self._found: dict[TopicId, Identifier] = {}
        """Tables that were found under another name than their topic's settings give them."""
        self._lawful = LawfulView()

    @classmethod
    def open(cls, spec: CatalogSpec) -> Self:
        with asking((spec.name,)):
            return cls(spec, spec.open())

    def close(self) -> None:
        self._catalog.close()

    def namespaces(self) -> list[str]:
        """All of the catalog, whoever made them."""
        with asking((self._spec.name,)):
            return [".".join(each) for each in self._catalog.list_namespaces()]

    def layout(
        self, topic_id: TopicId, topic_name: str, config: Mapping[str, str] | None = None
    ) -> TableLayout:
        return TableLayout(
            warehouse=self._spec.warehouse,
            topic_id=topic_id,
            topic_name=topic_name,
            config=config or {},
        )

    def load(self, layout: TableLayout) -> Table | None:
        """The topic's table with its newest metadata, by whatever name; None if it has none yet.

        Raises `RedTable` when its metadata file is damaged.
        """
        with asking(layout.identifier):
            for identifier in (layout.identifier, self._found.get(layout.topic_id)):
                table = None if identifier is None else self._load_whole(identifier, layout)
                if table is not None and _is_of(table, layout):
                    return table
            # Before the first commit there is nothing to look for among many tables.
            if not self._spec.file_io().new_input(f"{layout.location}/_iceberg").exists():
                return None
            return self._search(layout)

    def load_lawful(self, layout: TableLayout) -> Table | None:
        """The topic's table as of its newest lawful snapshot, for those who serve its rows."""
        table = self.load(layout)
        if table is None:
            return None
        with asking(layout.identifier):
            return self._lawful.of(table, self._remedies(layout))

    def load_or_create(self, layout: TableLayout) -> Table:
        """The topic's table under the name that its settings give it."""
        table = self.load(layout)
        with asking(layout.identifier):
            if table is not None and table.name() == layout.identifier:
                return table
            self._make_room(layout)
            if table is None:
                with suppress(TableAlreadyExistsError, CommitFailedException):
                    self._create(layout)
            else:
                self._catalog.rename_table(table.name(), layout.identifier)
        table = self.load(layout)
        if table is None:
            raise Unavailable("the table was not made", table=".".join(layout.identifier))
        return table

    def check(self, layout: TableLayout, known: Known = NOTHING_KNOWN) -> Table | None:
        """The topic's table, to which we may append; None if it has none yet.

        `known` was read before. Raises `RedTable` when others changed the table so that nothing may
        be added, dropped it, or put an older state of it back.
        """
        table = self.load(layout)
        ends = in_step.table_ends(known)
        if table is None and ends:
            raise self._gone(layout, ends)
        if table is not None:
            self._check(table, layout, known)
        return table

    def append(
        self, layout: TableLayout, append: TableAppend, known: Known = NOTHING_KNOWN
    ) -> Verdict:
        """Commit the files once; the verdict says whether this call did, or another had before.

        Raises `Unavailable` when the table changed meanwhile and nothing was committed,
        `OutcomeUnknown` when only a look for the commit id can tell, and `RedTable` as `check`
        does, or when the metadata store is older than the table.
        """
        table = self.load(layout)
        had = in_step.table_ends(known) or append.starts
        if table is None and any(had.values()):
            raise self._gone(layout, had)
        if table is None or table.name() != layout.identifier:
            table = self.load_or_create(layout)
        if str(append.commit_id) in commit_ids_of(table):
            return Verdict.ALREADY_DONE
        self._check(table, layout, known)
        state = TableState.of(table)
        if known:
            in_step.check_not_beyond(state.ends, known, table.metadata.current_snapshot_id)
        verdict = decide(state, append)
        if verdict is Verdict.STALE and _is_of_now(append, known):
            in_step.check_equal(state.ends, known, table.metadata.current_snapshot_id)
        if verdict is Verdict.APPLY:
            changed = {
                key: value
                for key, value in layout.settings().items()
                if table.properties.get(key) != value
            }
            commit(table, append, ends={**state.ends, **append.ends}, changed=changed)
        return verdict

    def drop(self, layout: TableLayout) -> bool:
        """Remove the table and everything below its location; whether there was any."""
        table = self.load(layout)
        with asking(layout.identifier):
            if table is not None:
                self._catalog.drop_table(table.name())
            return folders.remove(self._spec.file_io(), layout.location)

    def _check(self, table: Table, layout: TableLayout, known: Known) -> None:
        with asking(layout.identifier):
            check_foreign_changes(table, replace(self._remedies(layout), identifier=table.name()))
            ends = TableState.of(table).ends
            lost = in_step.is_behind(ends, known)
            if lost is not None:
                raise RedTable(
                    f"somebody put an older state of the table back: it has partition {lost} up to "
                    f"offset {ends.get(lost, 0)}, and had it up to {known[lost].table_end}",
                    snapshot_id=table.metadata.current_snapshot_id,
                    remedy=self._restore(layout, in_step.table_ends(known)),
                )

    def _load_whole(self, identifier: Identifier, layout: TableLayout) -> Table | None:
        try:
            return self._load(identifier)
        except DAMAGES as error:
            raise RedTable(
                f"the metadata file of {'.'.join(identifier)} is damaged: {error}",
                snapshot_id=None,
                remedy="bring the file back from a back-up or a bucket version; or else go back to "
                f"the state before it: {self._restore(layout, {})}",
            ) from error

    def _load(self, identifier: Identifier) -> Table | None:
        try:
            return self._catalog.load_table(identifier)
        except NoSuchTableError:
            return None

    def _search(self, layout: TableLayout) -> Table | None:
        for namespace in self._namespaces(layout):
            for identifier in self._tables_in(namespace):
                table = None
                with suppress(*DAMAGES):
                    table = self._load(identifier)
                if table is not None and _is_of(table, layout):
                    self._found[layout.topic_id] = identifier
                    return table
        return None

    def _namespaces(self, layout: TableLayout) -> Iterator[Identifier]:
        """Where the topic's table can be, the likely ones first."""
        likely = dict.fromkeys([(layout.identifier[0],), (NAMESPACE,)])
        yield from likely
        yield from (each for each in self._catalog.list_namespaces() if each not in likely)

    def _tables_in(self, namespace: Identifier) -> list[Identifier]:
        try:
            return self._catalog.list_tables(namespace)
        except NoSuchNamespaceError:
            return []

    def _make_room(self, layout: TableLayout) -> None:
        """Give the table that has our name another: its topic was deleted, or renamed its table."""
        with suppress(NamespaceAlreadyExistsError):
            self._catalog.create_namespace(layout.identifier[0])
        other = self._load(layout.identifier)
        if other is None or _is_of(other, layout):
            return
        topic_id = other.properties.get(TOPIC_ID_PROPERTY)
        if canonical(other.location()) == canonical(layout.location):
            raise self._unnamed(layout)
        if topic_id is None:
            raise RedTable(
                "the name belongs to a table that is not a stream's",
                snapshot_id=None,
                remedy=self._remedies(layout).rename("another name"),
            )
        self._catalog.rename_table(layout.identifier, layout.set_aside(topic_id))

    def _create(self, layout: TableLayout) -> None:
        creation = self._catalog.create_table_transaction(
            layout.identifier,
            schema=ICEBERG_SCHEMA,
            location=layout.location,
            partition_spec=PARTITION_SPEC,
            properties=layout.properties(),
        )
        # A second order beside the unsorted one: Spark cannot update a table that lacks that.
        order = creation.update_sort_order()
        for field in SORT_ORDER.fields:
            column = ICEBERG_SCHEMA.find_field(field.source_id).name
            order.asc(column, field.transform, field.null_order)
        order.commit()
        creation.commit_transaction()

    def _gone(self, layout: TableLayout, had: Mapping[int, int]) -> RedTable:
        with asking(layout.identifier):
            found = self._load(layout.identifier)
            if found is not None and canonical(found.location()) == canonical(layout.location):
                return self._unnamed(layout)
            return RedTable(
                "somebody dropped the table", snapshot_id=None, remedy=self._restore(layout, had)
            )

    def _unnamed(self, layout: TableLayout) -> RedTable:
        return RedTable(
            f"somebody removed or changed the table property {TOPIC_ID_PROPERTY}",
            snapshot_id=None,
            remedy=self._remedies(layout).set_properties({TOPIC_ID_PROPERTY: str(layout.topic_id)}),
        )

    def _restore(self, layout: TableLayout, had: Mapping[int, int]) -> str:
        """The way back to the newest metadata with these ends, or else to the newest of all.

        The newest of all may be an attempt that was never committed.
        """
        io, folder = self._spec.file_io(), f"{layout.location}/_iceberg"
        wanted = encode_ends(had)

        def has_them(metadata: TableMetadata) -> bool:
            return bool(wanted) and metadata.properties.get(ENDS_PROPERTY) == wanted

        file = earlier.in_folder(io, folder, has_them)
        file = file or earlier.in_folder(io, folder, lambda _: True)
        return self._remedies(layout).restore(file)

    def _remedies(self, layout: TableLayout) -> Remedies:
        return Remedies(
            catalog=self._spec.name, identifier=layout.identifier, location=layout.location
        )


def _is_of_now(append: TableAppend, known: Known) -> bool:
    """Whether it starts where the store says that the table ends, so that nothing is between."""
    return all(p in known and known[p].table_end == start for p, start in append.starts.items())


def _is_of(table: Table, layout: TableLayout) -> bool:
    return table.properties.get(TOPIC_ID_PROPERTY) == str(layout.topic_id)
