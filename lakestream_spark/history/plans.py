"""The newest plan of each topic's table.

What always holds: while reads come a plan is looked at about once a second, for all of them, so
that what another engine erases is gone from the stream soon. To judge what it did may take long:
meanwhile offsets below the ends of the plan before are read by that one, whose files are still
there, until a minute after it was last known to be the newest; nobody reads by an older one. A look
goes on when its askers give up, and its outcome is theirs when they come again. A metadata file
that is already planned is not planned again; an outage of the catalog does not take a plan away
that was good a moment ago, because nobody can have changed the table through it; nor does a newest
metadata file that is damaged, because the way to mend it leads to the state before it.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakestream_spark.core.errors import LostFile, RedTable, Unavailable
from lakestream_spark.core.ids import TopicId
from lakestream_spark.history.about import NEWEST, SnapshotFact, Snapshots
from lakestream_spark.history.look import Look
from lakestream_spark.history.manifests import ManifestCache, SnapshotFiles
from lakestream_spark.history.plan import Plan
from lakestream_spark.history.tally import Tally, Timed
from lakestream_spark.table.append import TableState
from lakestream_spark.table.iceberg import CatalogSpec, StreamCatalog
from lakestream_spark.table.layout import TableLayout
from lakestream_spark.table.outage import OUTAGES

_LOOK_EVERY_S: Final = 1.0
_WAIT_AFTER_S: Final = 5.0
"""A plan as old as this is not read by before a look for a newer one had as long a time."""
_OLDEST_S: Final = 60.0
"""A plan as old as this is not read by, however long the look for a newer one takes."""
_MAX_TOPICS: Final = 256
_TRIES: Final = 5

Wait: TypeAlias = Callable[[Look[Plan], float | None], bool]
"""Whether a look came to an end in so many seconds."""


class Plans:
    """Opens the catalog ahead, or else when it is first asked."""

    def __init__(
        self,
        spec: CatalogSpec,
        clock: Callable[[], float] = time.monotonic,
        tally: Tally | None = None,
        patience_s: float | None = None,
        wait: Wait = Look.ended,
    ) -> None:
        self._spec = spec
        self._patience_s = patience_s
        """Whoever waits longer for a plan gets a retriable error."""
        self._wait = wait
        self._tally = tally or Tally()
        self._clock = clock
        self._lock = threading.Lock()
        self._catalog: StreamCatalog | None = None
        self._topics: OrderedDict[TopicId, TopicPlan] = OrderedDict()

    def open_ahead(self) -> None:
        """Open the catalog before anybody asks; who asks meanwhile waits for it."""
        with self._lock, suppress(Unavailable):  # Told to whoever asks next.
            if self._catalog is None:
                self._open()

    def of(self, topic_id: TopicId, name: str, config: dict[str, str]) -> "TopicPlan":
        """The plan of a topic, which may have other settings now than before."""
        with self._lock:
            catalog = self._catalog or self._open()
            layout = catalog.layout(topic_id, name, config)
            found = self._topics.get(topic_id)
            if found is None or found.layout != layout:
                found = self._topics[topic_id] = TopicPlan(
                    catalog, layout, self._clock, self._tally, self._patience_s, self._wait
                )
            self._topics.move_to_end(topic_id)
            while len(self._topics) > _MAX_TOPICS:
                self._topics.popitem(last=False)
            return found

    def close(self) -> None:
        for topic in self._topics.values():
            topic.close()
        if self._catalog is not None:
            self._catalog.close()

    def _open(self) -> StreamCatalog:
        try:
            self._catalog = StreamCatalog.open(self._spec)
        except Exception as error:
            raise Unavailable(f"the catalog of the tables cannot be opened: {error}") from error
        return self._catalog


class TopicPlan:
    """The newest plan of one table."""

    def __init__(
        self,
        catalog: StreamCatalog,
        layout: TableLayout,
        clock: Callable[[], float],
        tally: Tally,
        patience_s: float | None = None,
        wait: Wait = Look.ended,
    ) -> None:
        self.layout = layout
        self._patience_s = patience_s
        self._wait = wait
        self._tally = tally
        self._catalog = catalog
        self._clock = clock
        self._lock = threading.Lock()
        self._manifests = ManifestCache()
        self._look: Look[Plan] | None = None
        self._plan: Plan | None = None
        self._looked_at = 0.0
        self._told_at = float("-inf")
        """When the catalog was asked that last answered: a look may have been in vain."""

    @property
    def table(self) -> str:
        return ".".join(self.layout.identifier)

    def current(self) -> Plan:
        """About a second old at most, unless a look takes long or nobody asked for long."""
        with self._lock:
            plan, now = self._plan, self._clock()
            age = now - self._looked_at
            if plan is not None and age < _LOOK_EVERY_S:
                return plan
            is_begun = self._look is None or not self._look.under_way
            look = self._looking()
        if plan is None or age >= _OLDEST_S:
            return self._awaited(look, plan)
        if age < _WAIT_AFTER_S and not is_begun:
            return plan
        if self._wait(look, max(0.0, look.began + _WAIT_AFTER_S - now)):
            return self._awaited(look, plan)
        return plan

    def newer(self) -> Plan:
        """As the table is now; raises `Unavailable` when that cannot be told."""
        asked_at = self._clock()
        while True:
            with self._lock:
                if self._plan is not None and self._told_at >= asked_at:
                    return self._plan
                look = self._looking()
            if look.began >= asked_at:
                return self._awaited(look, None)
            self._wait_for(look)

    def close(self) -> None:
        """Wait for a look that is under way."""
        if self._look is not None:
            self._look.join()

    def _looking(self) -> Look[Plan]:
        """The lock is held. The look that is under way, or else a new one."""
        if self._look is None or not self._look.under_way:
            began = self._clock()
            self._look = Look(lambda: self._reload(began), began)
        return self._look

    def _awaited(self, look: Look[Plan], otherwise: Plan | None) -> Plan:
        """`otherwise` is good enough when nothing newer can be told of the table."""
        self._wait_for(look)
        try:
            return look.result()
        except (Unavailable, RedTable) as error:
            if otherwise is None or not _tells_nothing(error):
                raise
            return otherwise

    def _wait_for(self, look: Look[Plan]) -> None:
        if not self._wait(look, self._patience_s):
            raise Unavailable(
                "the newest snapshot of the table is still being looked at", table=self.table
            )

    def _reload(self, began: float) -> Plan:
        """In the thread of a look."""
        try:
            plan = self._load()
        except (Unavailable, RedTable) as error:
            if _tells_nothing(error):
                with self._lock:
                    self._looked_at = began
            raise
        with self._lock:
            self._plan, self._looked_at, self._told_at = plan, began, began
        return plan

    def _load(self) -> Plan:
        gone: FileNotFoundError | LostFile | None = None
        for _ in range(_TRIES):
            try:
                table = self._catalog.load_lawful(self.layout)
                if table is None:
                    raise Unavailable("the topic has no table yet", table=self.table)
                return self._planned(table)
            except (FileNotFoundError, LostFile) as error:
                gone = error  # The snapshot expired between the two looks.
        if isinstance(gone, LostFile):
            raise gone
        raise Unavailable(f"the table's metadata is not readable: {gone}", table=self.table)

    def _planned(self, table: Table) -> Plan:
        known = self._plan
        snapshot, files = table.current_snapshot(), SnapshotFiles((), {})
        snapshot_id = None if snapshot is None else snapshot.snapshot_id
        # The name of a metadata file is never used twice; what of it is lawful may be judged anew.
        as_planned = (table.metadata_location, snapshot_id)
        if known is not None and (known.metadata_location, known.snapshot_id) == as_planned:
            return known
        if snapshot is not None:
            began = time.perf_counter()
            files = self._files(table, snapshot)
            self._tally.took(Timed.PLAN, time.perf_counter() - began)
        return Plan(
            metadata_location=table.metadata_location,
            snapshot_id=snapshot_id,
            io=table.io,
            ends=TableState.of(table).ends,
            data=files.data,
            deleted=files.deleted,
            table=".".join(table.name()),
            snapshots=_snapshots(table),
        )

    def _files(self, table: Table, snapshot: Snapshot) -> SnapshotFiles:
        try:
            return self._manifests.files_of(table.io, snapshot)
        except FileNotFoundError:
            raise
        except OUTAGES as error:
            raise Unavailable(f"the manifests cannot be read: {error!r}") from error


def _tells_nothing(error: Unavailable | RedTable) -> bool:
    """Whether nobody knows what the newest rows are; a snapshot that is to blame has wrong ones."""
    return isinstance(error, Unavailable) or error.facts.get("snapshot_id") is None


def _snapshots(table: Table) -> Snapshots:
    found = sorted(table.snapshots(), key=lambda each: each.sequence_number or 0, reverse=True)
    return Snapshots(len(found), tuple(_fact(each) for each in found[:NEWEST]))


def _fact(snapshot: Snapshot) -> SnapshotFact:
    told = {} if snapshot.summary is None else snapshot.summary.additional_properties
    return SnapshotFact(
        snapshot_id=snapshot.snapshot_id,
        at_ms=snapshot.timestamp_ms,
        operation="" if snapshot.summary is None else snapshot.summary.operation.value,
        rows=_number(told.get("added-records")) - _number(told.get("deleted-records")),
        total_rows=_number(told.get("total-records")),
        files=_number(told.get("total-data-files")),
    )


def _number(text: str | None) -> int:
    """What other engines write there is their own."""
    return int(text) if text is not None and text.isdecimal() else 0
