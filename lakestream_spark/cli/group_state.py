"""What the brokers say of consumer groups, asked over Kafka's own protocol."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from lakestream_spark.core.errors import NotFound, Rejected, Unavailable
from lakestream_spark.metadata.lag import lag_of

_ASK_S: Final = 30.0
_EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_DEAD: Final = "dead"
"""What older brokers say of a group that is not there."""
_NOT_FOUND: Final = KafkaError.GROUP_ID_NOT_FOUND
_HAS_MEMBERS: Final = KafkaError.NON_EMPTY_GROUP


class Member(NamedTuple):
    """A consumer in a group, and what it was given: topic and partition."""

    id: str
    client: str
    host: str
    assigned: list[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A group as its coordinator sees it."""

    name: str
    state: str
    members: Sequence[Member]
    committed: frozenset[str] = frozenset()
    """Topics in which it has committed offsets, where that was asked for."""

    @property
    def topics(self) -> list[str]:
        """Those that its members read now, and those that it has read."""
        return sorted(self.committed.union(t for each in self.members for t, _ in each.assigned))


class PartitionLag(NamedTuple):
    """How far a group is in a partition; None where it has committed nothing."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    """None when the topic is gone."""
    member: str | None
    lag: int | None
    """None where one of the two is."""


class Groups:
    """All groups of the brokers at an address."""

    def __init__(self, address: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": address, "log_level": 0})

    def all(self) -> list[GroupState]:
        """By name."""
        names = self._names()
        if not names:
            return []
        # Asked for before anyone is waited for: a client asks for one group at a time.
        asked = {name: self._ask_committed(name) for name in names}
        return [
            replace(each, committed=frozenset(topic for topic, _ in _committed(asked[each.name])))
            for each in self._described(names)
        ]

    def get(self, name: str) -> GroupState:
        """Raises `NotFound`."""
        # Asked for by name: a group whose coordinator has only started is not in its list yet.
        try:
            (found,) = self._described([name])
        except NotFound:
            pass
        else:
            if found.state != _DEAD:
                return found
        near = get_close_matches(name, self._names(), n=1)
        hint = f"did you mean {near[0]}?" if near else "`lakestream group list` shows all"
        raise NotFound(f"there is no group {name}; {hint}")

    def lags(self, group: GroupState) -> list[PartitionLag]:
        """Each partition that the group has committed or that a member of it has."""
        members = {place: each.id for each in group.members for place in each.assigned}
        committed = _committed(self._ask_committed(group.name))
        places = sorted({*members, *committed})
        ask_starts, ask_ends = self._ask(places, _EARLIEST), self._ask(places, _LATEST)
        starts, ends = _offsets(ask_starts), _offsets(ask_ends)
        return [
            PartitionLag(
                *place,
                committed.get(place),
                ends.get(place),
                members.get(place),
                _lag(committed.get(place), starts.get(place), ends.get(place)),
            )
            for place in places
        ]

    def delete(self, name: str) -> None:
        """Raises `Rejected` when it has members."""
        _answer(self._admin.delete_consumer_groups([name])[name])

    def _names(self) -> list[str]:
        listed = _answer(self._admin.list_consumer_groups())
        for error in listed.errors:
            raise _said(error)
        return sorted(each.group_id for each in listed.valid)

    def _described(self, names: Sequence[str]) -> list[GroupState]:
        asked = self._admin.describe_consumer_groups(list(names))
        return [_state(name, _answer(asked[name])) for name in names]

    def _ask_committed(self, name: str) -> "Future[Any]":
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])
        future: Future[Any] = asked[name]
        return future

    def _ask(self, places: Sequence[tuple[str, int]], which: Any) -> "Mapping[Place, Future[Any]]":
        if not places:
            return {}
        asked: Mapping[Place, Future[Any]] = self._admin.list_offsets(
            {Place(*place): which for place in places}
        )
        return asked


def _offsets(asked: "Mapping[Place, Future[Any]]") -> Mapping[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for place, future in asked.items():
        try:
            found[place.topic, place.partition] = _waited(future).offset
        except KafkaException as error:
            # A topic that is gone has no offsets, and the others have theirs.
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise _said(error.args[0]) from error
    return found


def _lag(committed: int | None, log_start: int | None, end: int | None) -> int | None:
    if committed is None or log_start is None or end is None:
        return None
    return lag_of(committed=committed, log_start=log_start, end=end)


def _state(name: str, described: Any) -> GroupState:
    members = [
        Member(
            each.member_id,
            each.client_id,
            each.host.lstrip("/"),
            sorted((place.topic, place.partition) for place in each.assignment.topic_partitions),
        )
        for each in described.members
    ]
    return GroupState(
        name=name, state=described.state.name.lower().replace("_", " "), members=members
    )


def _committed(asked: "Future[Any]") -> dict[tuple[str, int], int]:
    found = _answer(asked).topic_partitions or []
    return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}


def _answer(future: "Future[Any]") -> Any:
    try:
        return _waited(future)
    except KafkaException as error:
        raise _said(error.args[0]) from error


def _waited(future: "Future[Any]") -> Any:
    try:
        return future.result(_ASK_S)
    except TimeoutError as error:
        raise Unavailable(f"the brokers have not answered for {_ASK_S:g} s") from error


def _said(error: KafkaError) -> Exception:
    if error.code() == _HAS_MEMBERS:
        return Rejected("the group has members: stop them first")
    if error.code() == _NOT_FOUND:
        return NotFound("there is no such group")
    return Unavailable(f"the brokers do not tell: {error.str()}")
