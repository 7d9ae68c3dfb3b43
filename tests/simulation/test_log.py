"""Random lives of a small cluster: after every step the invariants of the log hold.

Producers (idempotent and not) send through any broker, retry through any other, pipeline segments;
uploads and commits work, fail, lose replies or hang; brokers crash, restart and leave zombies;
topics come, go and come again; the table moves on; time passes; WAL is reclaimed and evacuated.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from lakestream_spark.core.ids import TopicPartition
from tests.simulation.faults import Fault
from tests.simulation.world import Broker, Sent, World

BROKERS = st.integers(1, 3)
PRODUCERS = st.sampled_from([-1, -1, 7, 8])
UPLOADS = st.sampled_from([Fault.NONE] * 5 + [Fault.FAILS, Fault.LOST_REPLY])
COMMITS = st.lists(
    st.sampled_from(
        [Fault.NONE] * 3 + [Fault.FAILS, Fault.LOST_REPLY, Fault.HANGS_BEFORE] + [Fault.HANGS_AFTER]
    ),
    max_size=4,
)
SHARES = st.sampled_from([0.0, 0.3, 0.5, 1.0])


class Log(RuleBasedStateMachine):
    """One world; the sequence numbers of the idempotent producers are the clients' memory."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.next_sequence: dict[tuple[TopicPartition, int], int] = {}
        self.history: list[Sent] = []
        self.in_flight: list[Sent] = []

    @initialize()
    def begin(self) -> None:
        self.world.create_topic("orders", 2)
        self.world.create_topic("payments", 1)
        for broker_id in (1, 2):
            self.world.start_broker(broker_id)

    def teardown(self) -> None:
        try:
            self.world.check_no_garbage()
            self.world.check()
        finally:
            self.world.close()

    @invariant()
    def everything_holds(self) -> None:
        self.world.check()

    def _broker(self, choose: Callable[..., Any]) -> Broker:
        return choose(sorted(self.world.brokers.values(), key=lambda b: b.identity))

    def _batch(self, partition: TopicPartition, producer_id: int, count: int) -> Sent:
        values = self.world.new_values(count)
        if producer_id < 0:
            return Sent(partition, values, -1, -1, -1)
        key = (partition, producer_id)
        sequence = self.next_sequence.get(key, 0)
        self.next_sequence[key] = sequence + count
        return Sent(partition, values, producer_id, 0, sequence)

    @precondition(lambda self: self.world.brokers and self.world.topics)
    @rule(
        data=st.data(),
        producer_id=PRODUCERS,
        counts=st.lists(st.integers(1, 4), min_size=1, max_size=4),
        uploads=st.lists(UPLOADS, min_size=4, max_size=4),
        commits=COMMITS,
        one_segment=st.booleans(),
    )
    def produce(
        self,
        data: st.DataObject,
        producer_id: int,
        counts: list[int],
        uploads: list[Fault],
        commits: list[Fault],
        one_segment: bool,
    ) -> None:
        """Some batches through one broker, in one segment or pipelined over several."""
        broker = self._broker(lambda found: data.draw(st.sampled_from(found)))
        for count, upload in zip(counts, uploads, strict=False):
            partition = data.draw(st.sampled_from(self.world.partitions()))
            sent = self._batch(partition, producer_id, count)
            self.history.append(sent)
            self.world.send(broker, sent)
            if not one_segment:
                self.world.seal(broker, upload)
        self.world.seal(broker, uploads[-1])
        self.world.settle(broker, commits)

    @precondition(lambda self: self.world.brokers and self.history)
    @rule(data=st.data(), commits=COMMITS)
    def resend(self, data: st.DataObject, commits: list[Fault]) -> None:
        """A client repeats one of its last batches, through whichever broker."""
        broker = self._broker(lambda found: data.draw(st.sampled_from(found)))
        known = set(self.world.partitions())
        recent = [s for s in self.history[-12:] if s.producer_id >= 0 and s.partition in known]
        if not recent:
            return
        for sent in data.draw(st.lists(st.sampled_from(recent), min_size=1, max_size=3)):
            self.world.send(broker, sent)
        self.world.seal(broker)
        self.world.settle(broker, commits)

    @rule(broker_id=BROKERS, zombie=st.booleans())
    def restart(self, broker_id: int, zombie: bool) -> None:
        self.world.start_broker(broker_id, leave_zombie=zombie)

    @precondition(lambda self: self.world.brokers)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.world.crash(data.draw(st.sampled_from(sorted(self.world.brokers))))

    @precondition(lambda self: self.world.brokers and self.world.topics)
    @rule(data=st.data(), after=st.booleans())
    def crash_while_uploading(self, data: st.DataObject, after: bool) -> None:
        broker_id = data.draw(st.sampled_from(sorted(self.world.brokers)))
        partition = data.draw(st.sampled_from(self.world.partitions()))
        broker = self.world.brokers[broker_id]
        sent = self._batch(partition, data.draw(PRODUCERS), 2)
        self.history.append(sent)
        self.world.send(broker, sent)
        self.world.seal(broker, Fault.HANGS_AFTER if after else Fault.HANGS_BEFORE)
        self.world.settle(broker)
        self.world.crash(broker_id)

    @precondition(lambda self: self.world.zombies and self.world.topics)
    @rule(data=st.data())
    def zombie_writes(self, data: st.DataObject) -> None:
        zombie = self.world.zombies[-1]
        partition = data.draw(st.sampled_from(self.world.partitions()))
        sent = self._batch(partition, -1, 1)
        self.world.send(zombie, sent)
        self.world.seal(zombie)
        self.world.settle(zombie)

    @precondition(lambda self: self.world.brokers)
    @rule(data=st.data())
    def wait(self, data: st.DataObject) -> None:
        for broker in list(self.world.brokers.values()):
            self.world.settle(broker)

    @precondition(lambda self: len(self.world.topics) > 1)
    @rule(data=st.data())
    def delete_topic(self, data: st.DataObject) -> None:
        self.world.delete_topic(data.draw(st.sampled_from(sorted(self.world.topics))))

    @precondition(lambda self: len(self.world.topics) < 3)
    @rule(name=st.sampled_from(["orders", "payments", "refunds"]), partitions=st.integers(1, 2))
    def create_topic(self, name: str, partitions: int) -> None:
        if name not in self.world.topics:
            self.world.create_topic(name, partitions)

    @precondition(lambda self: self.world.topics)
    @rule(data=st.data(), share=SHARES)
    def compact(self, data: st.DataObject, share: float) -> None:
        self.world.compact(data.draw(st.sampled_from(sorted(self.world.topics))), share)

    @precondition(lambda self: self.world.topics)
    @rule(data=st.data(), share=SHARES)
    def delete_records(self, data: st.DataObject, share: float) -> None:
        partition = data.draw(st.sampled_from(self.world.partitions()))
        self.world.delete_records(partition, share)

    @rule(seconds=st.sampled_from([1, 61, 700]))
    def time_passes(self, seconds: int) -> None:
        self.world.run(self.world.clock.advance(seconds))

    @rule()
    def reclaim(self) -> None:
        self.world.reclaim()


TestLog = Log.TestCase
