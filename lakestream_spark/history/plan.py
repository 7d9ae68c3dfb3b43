"""A plan: which files to read for an offset, as of one metadata file of the table."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple, Self

from pyiceberg.io import FileIO

from lakestream_spark.history.about import NO_SNAPSHOTS, Snapshots
from lakestream_spark.history.manifests import PlannedFile
from lakestream_spark.history.overlaps import overlapping
from lakestream_spark.kafka.arrow.layout import Longs

_OFFSETS: Final = attrgetter("offsets")


class FileSpan(NamedTuple):
    """Files whose offsets overlap, so that they are read together; nearly always a single one."""

    first: int
    last: int
    files: tuple[PlannedFile, ...]


class _ByPartition(NamedTuple):
    """Files by the one partition that they are of; those over several partitions are apart."""

    own: Mapping[int, Sequence[PlannedFile]]
    shared: Sequence[PlannedFile]

    @classmethod
    def of(cls, files: Iterable[PlannedFile]) -> Self:
        own: defaultdict[int, list[PlannedFile]] = defaultdict(list)
        shared: list[PlannedFile] = []
        for file in files:
            first, last = file.partitions
            (own[first] if first == last else shared).append(file)
        return cls(dict(own), shared)

    def files(self, partition: int) -> list[PlannedFile]:
        """All that may hold rows of the partition."""
        shared = (f for f in self.shared if f.partitions[0] <= partition <= f.partitions[1])
        return [*self.own.get(partition, ()), *shared]


@dataclass(slots=True, kw_only=True)
class Plan:
    """The files of a snapshot with the ends that came from the same metadata file."""

    metadata_location: str
    snapshot_id: int | None
    io: FileIO
    ends: Mapping[int, int]
    """The first offset of each partition that is not in the table yet."""
    data: Sequence[PlannedFile]
    deleted: Mapping[str, Longs]
    table: str = ""
    snapshots: Snapshots = NO_SNAPSHOTS
    _files: _ByPartition = field(init=False, repr=False)
    _spans: dict[int, list[FileSpan]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        # Once for all partitions: each of them would go through all files by itself.
        self._files = _ByPartition.of(self.data)

    def end(self, partition: int) -> int:
        return self.ends.get(partition, 0)

    def spans(self, partition: int) -> Sequence[FileSpan]:
        """All files that may hold rows of the partition, in the order of their offsets."""
        known = self._spans.get(partition)
        if known is None:
            own = self._files.files(partition)
            # Two threads that come here at once find the same.
            known = self._spans[partition] = [
                FileSpan(*around, files) for around, files in overlapping(own, _OFFSETS)
            ]
        return known

    def at_or_after(self, partition: int, offset: int) -> FileSpan | None:
        """The first files that may hold a row at the offset or after it."""
        spans = self.spans(partition)
        at = bisect_left(spans, offset, key=attrgetter("last"))
        return spans[at] if at < len(spans) else None

    def files_between(self, partition: int, first: int, following: int) -> Iterator[PlannedFile]:
        """Those that may hold rows of the offsets [first, following)."""
        spans = self.spans(partition)
        for span in spans[bisect_left(spans, first, key=attrgetter("last")) :]:
            if span.first >= following:
                return
            for file in span.files:
                if file.offsets.first < following and file.offsets.last >= first:
                    yield file

    def deletes_of(self, path: str) -> int | None:
        """What tells these deletes of a file's rows from any others; None when there are none."""
        positions = self.deleted.get(path)
        return None if positions is None else hash(positions.tobytes())
