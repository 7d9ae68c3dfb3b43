"""Fetch sessions: begun, gone on with, forgotten, bounded."""

from random import Random
from types import SimpleNamespace

from kio.schema.errors import ErrorCode

from lakestream_spark.ingress.fetch_sessions import NO_SESSION, FetchSessions, Opened


def message(
    session_id: int,
    epoch: int,
    *wanted: tuple[str, int, int],
    forgotten: tuple[str, int] | None = None,
) -> SimpleNamespace:
    topics = [
        SimpleNamespace(
            topic=topic,
            partitions=[
                SimpleNamespace(partition=number, fetch_offset=offset, partition_max_bytes=100)
            ],
        )
        for topic, number, offset in wanted
    ]
    gone = [SimpleNamespace(topic=forgotten[0], partitions=[forgotten[1]])] if forgotten else []
    return SimpleNamespace(
        session_id=session_id, session_epoch=epoch, topics=topics, forgotten_topics_data=gone
    )


def opened(answer: Opened | ErrorCode) -> Opened:
    assert isinstance(answer, Opened)
    return answer


def wants(answer: Opened) -> list[tuple[object, int, int]]:
    return [(want.topic, want.partition, want.offset) for want in answer.wants]


def test_a_session_remembers_its_partitions_and_takes_changes() -> None:
    sessions = FetchSessions(Random(1))
    first = opened(sessions.open(message(0, 0, ("t", 0, 5), ("t", 1, 6))))
    assert first.session_id != NO_SESSION
    assert not first.incremental
    second = opened(sessions.open(message(first.session_id, 1, ("t", 1, 9))))
    assert second.incremental
    assert wants(second) == [("t", 0, 5), ("t", 1, 9)]
    third = opened(sessions.open(message(first.session_id, 2, forgotten=("t", 0))))
    assert wants(third) == [("t", 1, 9)]


def test_without_an_epoch_there_is_no_session() -> None:
    answer = opened(FetchSessions(Random(1)).open(message(0, -1, ("t", 0, 5))))
    assert answer.session_id == NO_SESSION
    assert wants(answer) == [("t", 0, 5)]


def test_an_unknown_session_and_a_wrong_epoch_are_told_apart() -> None:
    sessions = FetchSessions(Random(1))
    first = opened(sessions.open(message(0, 0, ("t", 0, 5))))
    assert sessions.open(message(77, 1)) is ErrorCode.fetch_session_id_not_found
    assert sessions.open(message(first.session_id, 2)) is ErrorCode.invalid_fetch_session_epoch
    opened(sessions.open(message(first.session_id, 1)))
    assert sessions.open(message(first.session_id, 1)) is ErrorCode.invalid_fetch_session_epoch


def test_a_final_epoch_ends_the_session() -> None:
    sessions = FetchSessions(Random(1))
    first = opened(sessions.open(message(0, 0, ("t", 0, 5))))
    opened(sessions.open(message(first.session_id, -1, ("t", 0, 5))))
    assert sessions.open(message(first.session_id, 1)) is ErrorCode.fetch_session_id_not_found


def test_the_least_recently_used_session_makes_room() -> None:
    sessions = FetchSessions(Random(1), max_sessions=2)
    ids = [opened(sessions.open(message(0, 0, ("t", 0, 5)))).session_id for _ in range(2)]
    opened(sessions.open(message(ids[0], 1)))
    opened(sessions.open(message(0, 0, ("t", 0, 5))))
    assert sessions.open(message(ids[1], 1)) is ErrorCode.fetch_session_id_not_found
    opened(sessions.open(message(ids[0], 2)))


def test_partitions_that_gave_records_come_last_next_time() -> None:
    sessions = FetchSessions(Random(1))
    first = opened(sessions.open(message(0, 0, ("t", 0, 5), ("t", 1, 6))))
    assert first.session is not None
    first.session.served(("t", 0))
    assert wants(opened(sessions.open(message(first.session_id, 1)))) == [("t", 1, 6), ("t", 0, 5)]
