"""A read is dense and shows nothing twice, however many extents it finds."""

import pytest

from lakestream_spark.objectstore.memory import MemoryStore
from lakestream_spark.wal.writer import FlushPolicy
from tests.support.batches import checked, make_batch
from tests.support.crowd import PROFILE, open_writer
from tests.support.log import decoded, open_log


@pytest.mark.parametrize("extents", [1, 7, 8, 9, 64, 71, 72, 73])
async def test_a_read_to_the_end_shows_every_record_once(extents: int):
    async with open_log("sqlite://", {PROFILE: MemoryStore()}) as log:
        await log.create_topics("orders", partitions=1)
        (partition,) = log.partitions
        async with open_writer(log, FlushPolicy(max_age_ms=1, max_bytes=1)) as writer:
            for number in range(extents):
                await writer.append(partition, checked(make_batch([b"%d" % number])))
        located = await log.metadata.extents.locate(partition, 0, 1 << 30)
        assert [each.base_offset for each in located.extents] == list(range(extents))
        result = await log.reader.read(partition, 0, 1 << 30)
        assert decoded(result.data, 0) == [(number, str(number)) for number in range(extents)]
        assert result.next_offset == extents
