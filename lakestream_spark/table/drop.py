"""What becomes of the tables of deleted topics.

A table is kept unless its topic said `lakestream.table.on.delete=drop`. What always holds: a topic
is marked as settled only after its table and files are gone, so a crash costs a repetition; a table
is dropped at once and once more after a grace period, because a batch that was under way when the
topic was deleted may write where everything was removed.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from lakestream_spark.core.errors import LakestreamError
from lakestream_spark.core.ids import TopicId
from lakestream_spark.core.logs import event
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import DeletedTopic, Topic
from lakestream_spark.table.iceberg import StreamCatalog

GRACE_MS: Final = 10 * 60_000
"""A batch that is older than this writes nothing more."""
_log: Final = logging.getLogger(__name__)


class DeletedTopics(Protocol):
    async def deleted(self) -> Sequence[DeletedTopic]: ...

    async def settle_table(self, topic_id: TopicId) -> None: ...


async def settle_deleted(topics: DeletedTopics, catalog: StreamCatalog) -> int:
    """Drop what is to be dropped; how many topics were settled. One that fails waits."""
    settled = 0
    for topic, for_ms in await topics.deleted():
        try:
            await asyncio.to_thread(drop_table_of, catalog, topic)
        except LakestreamError as error:
            event(_log, logging.WARNING, "a table was not dropped", topic=topic.name, error=error)
            continue
        if for_ms > GRACE_MS or not _is_to_go(topic):
            await topics.settle_table(topic.id)
            settled += 1
    return settled


def drop_table_of(catalog: StreamCatalog, topic: Topic) -> None:
    """Remove a deleted topic's table and files if its settings say so; repeating is safe."""
    layout = catalog.layout(topic.id, topic.name, topic.config)
    if _is_to_go(topic) and catalog.drop(layout):
        event(_log, logging.INFO, "the table of a deleted topic was dropped", topic=topic.name)


def _is_to_go(topic: Topic) -> bool:
    return TopicConfig.of(topic.config).drop_table_on_delete
