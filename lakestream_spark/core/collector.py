"""The garbage collector of a process that serves: it looks less often, and not at what is old.

A full collection stopped commits for up to 73 ms, while what a request leaves behind is nearly all
freed by its reference counts.
"""

import gc


def spare_the_collector() -> None:
    """Call it once, when everything is imported and built."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
