"""Remembered producer states are used only when they are certainly right."""

from lakestream_spark.metadata.known_producers import KnownProducers

A, B, C = ((epoch, b"") for epoch in (1, 2, 3))


def test_a_state_is_known_at_the_watermark_it_was_written_with():
    known = KnownProducers()
    known.remember(5, (0, 10), {}, {7: A})
    assert known.of(5, 10) == {7: A}
    assert known.of(5, 11) == {}
    assert known.of(6, 10) == {}


def test_states_add_up_while_nobody_else_writes():
    known = KnownProducers()
    known.remember(5, (0, 10), {}, {7: A})
    known.remember(5, (10, 12), {7: A, 9: C}, {8: B})
    assert known.of(5, 12) == {7: A, 8: B, 9: C}


def test_after_somebody_else_wrote_only_the_new_is_known():
    known = KnownProducers()
    known.remember(5, (0, 10), {}, {7: A})
    known.remember(5, (15, 20), {9: C}, {8: B})
    assert known.of(5, 20) == {8: B, 9: C}


def test_a_commit_that_is_told_late_is_not_taken_for_the_newest():
    known = KnownProducers()
    known.remember(5, (10, 20), {}, {7: B})
    known.remember(5, (0, 10), {}, {7: A})
    assert known.of(5, 20) == {7: B}


def test_too_many_are_all_forgotten():
    known = KnownProducers(max_producers=2)
    known.remember(5, (0, 1), {}, {1: A, 2: A})
    assert known.of(5, 1)
    known.remember(6, (0, 1), {}, {1: A})
    assert not known.of(5, 1)
    assert not known.of(6, 1)
    known.remember(6, (1, 2), {}, {1: A})
    assert known.of(6, 2) == {1: A}
