"""What groups may ask for, and how long things last; Kafka's names are in the comments."""

from dataclasses import dataclass
from typing import Final

_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 24 * 60 * _MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """Kafka's defaults, but for the initial delay: see there."""

    initial_rebalance_delay_ms: int = 0  # group.initial.rebalance.delay.ms
    """How long a group that was empty waits for more members. 0 as in the server.properties that
    Kafka ships, not 3000 as in its code: the first records come at once, and members that start
    together still meet in the second rebalance, which waits for all of them."""
    min_session_timeout_ms: int = 6_000  # group.min.session.timeout.ms
    max_session_timeout_ms: int = 30 * _MINUTE_MS  # group.max.session.timeout.ms
    max_size: int = 2**31 - 1  # group.max.size
    max_metadata_chars: int = 4096  # offset.metadata.max.bytes, which Kafka counts in characters
    offsets_retention_ms: int = 7 * _DAY_MS  # offsets.retention.minutes
    new_member_timeout_ms: int = 5 * _MINUTE_MS
    """A member that waits for its first generation, and so cannot send heartbeats yet."""
    max_group_id_bytes: int = 1024
    """Kafka allows 32,767; ours is a key in the metadata store."""
    lease_session_ms: int = 6_000
    """A coordinator that shows no life for this long is replaced."""
    lease_renew_ms: int = 1_500
    """How often a coordinator shows that it lives and looks whether others do."""
    find_wait_ms: int = 2_000
    """How long FindCoordinator waits while a coordinator changes. Some clients ask three times
    within 200 ms and then give up for good."""

    def __post_init__(self) -> None:
        if not 0 < self.min_session_timeout_ms <= self.max_session_timeout_ms:
            raise ValueError("session timeouts need 0 < min <= max")
        if self.max_size < 1 or self.initial_rebalance_delay_ms < 0:
            raise ValueError("a group has room for a member and its delay is not negative")
        if not 0 < self.lease_renew_ms < self.lease_session_ms:
            raise ValueError("leases are renewed within their session")

    def allows_id(self, group_id: str) -> bool:
        """Whether a group may be called that; PostgreSQL stores no NUL."""
        return "\0" not in group_id and len(group_id.encode()) <= self.max_group_id_bytes
