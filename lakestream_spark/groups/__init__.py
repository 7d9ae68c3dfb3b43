"""Consumer groups: who reads what, and how far they have come.

    requests ─► service ─► join / sync / membership decide on one Group ─► replies to tickets
                   │                        ▲
                   ├─ alarms ───────────────┘ a group's next deadline
                   └─ slots ─► leases: which broker coordinates which groups

The state machine (`group`, `rebalance`, `join`, `sync`, `membership`) does no I/O and knows no
clock: time comes in, replies come out. The service does the rest.

What always holds
- a generation has one leader and its number only grows; a member of a stable generation has an
  assignment of that generation;
- every parked request is answered exactly once: by the group, or by losing the coordinator;
- an offset is stored under the lease of the group's slot or not at all.
"""

from lakestream_spark.groups.limits import GroupLimits
from lakestream_spark.groups.ports import Directory
from lakestream_spark.groups.service import GroupService

__all__ = ["Directory", "GroupLimits", "GroupService"]
