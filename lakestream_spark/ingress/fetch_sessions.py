"""Fetch sessions (KIP-227): a client names its partitions once and then only what changes.

State of this broker alone: a client that comes to another broker, or after an eviction, is told
that its session is unknown and begins a new one. What always holds: a session answers an epoch at
most once; sessions and their partitions are bounded, the least recently used goes first.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from kio.schema.errors import ErrorCode

NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1
_MAX_SESSIONS: Final = 1_000
_MAX_PARTITIONS: Final = 1_000_000

TopicKey: TypeAlias = str | UUID


class Want(NamedTuple):
    """A partition that a client reads, from where on and how much of it."""

    topic: TopicKey
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int


class Shown(NamedTuple):
    """What a client was last told of a partition's borders."""

    high_watermark: int
    log_start: int


class Session:
    """What one client reads, in the order in which it is served."""

    __slots__ = ("epoch", "id", "shown", "wants")

    def __init__(self, session_id: int) -> None:
        self.id = session_id
        self.epoch = _INITIAL_EPOCH
        self.wants: OrderedDict[tuple[TopicKey, int], Want] = OrderedDict()
        self.shown: dict[tuple[TopicKey, int], Shown] = {}

    def update(self, wants: Iterable[Want], forgotten: Iterable[tuple[TopicKey, int]]) -> None:
        for want in wants:
            self.wants[want.topic, want.partition] = want
        for key in forgotten:
            self.wants.pop(key, None)
            self.shown.pop(key, None)

    def served(self, key: tuple[TopicKey, int]) -> None:
        """The partition gave records: the others come first next time."""
        if key in self.wants:
            self.wants.move_to_end(key)


class Opened(NamedTuple):
    """How a fetch is to be served."""

    session: Session | None
    wants: Sequence[Want]
    incremental: bool

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.id


class FetchSessions:
    """All sessions of one broker."""

    def __init__(self, random: Random, *, max_sessions: int = _MAX_SESSIONS) -> None:
        self._random = random
        self._max_sessions = max_sessions
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self._partitions = 0

    def open(self, message: Any) -> Opened | ErrorCode:
        """Find, make or end the session that a request asks for; or say why that cannot be."""
        wants = read_wants(message)
        epoch = getattr(message, "session_epoch", _FINAL_EPOCH)
        session_id = getattr(message, "session_id", NO_SESSION)
        if epoch in (_INITIAL_EPOCH, _FINAL_EPOCH):
            self._drop(session_id)
            session = self._new(wants) if epoch == _INITIAL_EPOCH else None
            return Opened(session, wants, incremental=False)
        session = self._sessions.get(session_id)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if epoch != session.epoch:
            return ErrorCode.invalid_fetch_session_epoch
        self._sessions.move_to_end(session_id)
        before = len(session.wants)
        session.update(wants, _forgotten(message))
        session.epoch = _next(session.epoch)
        self._partitions += len(session.wants) - before
        return Opened(session, list(session.wants.values()), incremental=True)

    def _new(self, wants: Sequence[Want]) -> Session | None:
        if not wants or len(wants) > _MAX_PARTITIONS:
            return None
        session = Session(self._free_id())
        session.update(wants, ())
        session.epoch = _next(_INITIAL_EPOCH)
        self._sessions[session.id] = session
        self._partitions += len(session.wants)
        while len(self._sessions) > self._max_sessions or self._partitions > _MAX_PARTITIONS:
            self._drop(next(iter(self._sessions)))
        return session

    def _free_id(self) -> int:
        while True:
            session_id = self._random.randrange(1, 2**31)
            if session_id not in self._sessions:
                return session_id

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.wants)


def _next(epoch: int) -> int:
    return 1 if epoch == _LAST_EPOCH else epoch + 1


def read_wants(message: Any) -> list[Want]:
    """The partitions that a request names."""
    return [
        Want(
            _key(named),
            wanted.partition,
            wanted.fetch_offset,
            wanted.partition_max_bytes,
            getattr(wanted, "current_leader_epoch", -1),
        )
        for named in message.topics
        for wanted in named.partitions
    ]


def _forgotten(message: Any) -> list[tuple[TopicKey, int]]:
    return [
        (_key(named), partition)
        for named in message.forgotten_topics_data
        for partition in named.partitions
    ]


def _key(named: Any) -> TopicKey:
    topic_id: UUID | None = getattr(named, "topic_id", None)
    return str(named.topic) if topic_id is None else topic_id
