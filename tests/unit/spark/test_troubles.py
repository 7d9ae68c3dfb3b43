"""What failed, and what is seen to be mended."""

from lakestream_spark.core.ids import TopicId
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.leases import Lease
from lakestream_spark.metadata.problems import Problem, Problems
from lakestream_spark.spark.troubles import Troubles
from tests.support.clock import SimulatedClock


class CountedProblems(Problems):
    """Says how often it was asked."""

    def __init__(self, metadata: Metadata) -> None:
        super().__init__(metadata.database)
        self.asked = 0

    async def list(self, topic_id: TopicId | None = None) -> list[Problem]:
        self.asked += 1
        return await super().list(topic_id)

    async def clear(self, lease: Lease, topic_id: TopicId, partition: int | None = None) -> None:
        self.asked += 1
        await super().clear(lease, topic_id, partition)


async def test_a_commit_of_many_partitions_looks_at_problems_once_and_clears_its_own() -> None:
    metadata = await open_metadata("sqlite://", clock=SimulatedClock())
    try:
        topic = await metadata.topics.create("orders", partitions=1000)
        lease = await metadata.leases.try_acquire("table", "me", 1)
        assert lease is not None
        problems = CountedProblems(metadata)
        troubles = Troubles(problems, SimulatedClock())
        for partition in (3, 998, 999):
            await troubles.partition_failed(lease, topic, partition, 5, "damaged", lost=True)
        await troubles.table_failed(lease, topic, ValueError("nobody thought of this"))
        await troubles.is_well(lease, topic, range(999))
        assert problems.asked == 1 + 3
        (left,) = await metadata.problems.list()
        assert left.partition == 999
        for place, is_troubled in ((None, False), (3, False), (998, False), (999, True)):
            assert troubles.is_troubled(topic.id, place) is is_troubled
            assert troubles.is_resting(topic.id, place) is is_troubled
    finally:
        await metadata.close()
