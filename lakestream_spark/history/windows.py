"""Which rows of a row group lie in which window of offsets, found out once.

What always holds: each live row is in exactly one window; a row costs four bytes.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lakestream_spark.history.groups import LiveRows
from lakestream_spark.kafka.arrow.layout import Longs

ROW_BYTES = 4
"""Of memory for each live row."""
_Rows: TypeAlias = npt.NDArray[np.uint32]


class RowsByWindow(NamedTuple):
    """The rows of one row group, window after window."""

    first: int
    """The first window that has any."""
    rows: _Rows
    starts: Longs
    """Where the rows of each window begin, and where those of the last one end."""

    @classmethod
    def of(cls, live: LiveRows, first_offset: int, window: int) -> "RowsByWindow":
        """Windows are so many offsets each, counted from the first offset."""
        if not len(live.offsets):
            return cls(0, np.empty(0, np.uint32), np.zeros(1, np.int64))
        windows = (live.offsets - first_offset) // window
        # Stable: the rows of a window stay in the order of the file.
        order = np.argsort(windows, kind="stable")
        rows = order if live.rows is None else live.rows[order]
        first = int(windows.min())
        borders = np.arange(first, int(windows.max()) + 2)
        starts = np.searchsorted(windows[order], borders)
        return cls(first, rows.astype(np.uint32), starts.astype(np.int64))

    def rows_in(self, window: int) -> Longs:
        """In the order of the file; perhaps none."""
        at = window - self.first
        if not 0 <= at < len(self.starts) - 1:
            return np.empty(0, np.int64)
        return self.rows[self.starts[at] : self.starts[at + 1]].astype(np.int64)
