"""A process that commits segments to one partition as fast as it can, for tests with two of them.

    python -m tests.support.committer URL TOPIC_ID BROKER_ID SEGMENTS

For each line on standard input it commits so many segments and prints, for each of them, the base
offsets of its batches.
"""

import asyncio
import sys
from itertools import count, islice
from uuid import UUID

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.core.ids import BrokerId, TopicId, TopicPartition
from lakestream_spark.metadata import open_metadata
from tests.support.metadata import answers, header, stored


async def main(url: str, topic_id: str, broker_id: str, segments: str) -> None:
    metadata = await open_metadata(url, clock=SystemClock())
    writer = await metadata.writers.register(BrokerId(int(broker_id)), "cost")
    partition = TopicPartition(TopicId(UUID(topic_id)), 0)
    print("ready", flush=True)
    numbers = count(1)
    while sys.stdin.readline():
        for n in islice(numbers, int(segments)):
            segment = stored(writer, n, (partition, [header(3), header(1)]))
            receipt = await metadata.sequencer.commit(segment)
            print(*(answer.base_offset for answer in answers(segment, receipt)[0]), flush=True)
    await metadata.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
