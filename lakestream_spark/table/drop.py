"""What becomes of the table of a deleted topic."""

from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.table.iceberg import StreamCatalog


def drop_table_of(catalog: StreamCatalog, topic: Topic) -> None:
    """Remove a deleted topic's table and files if its settings say so; repeating is safe."""
    if TopicConfig.of(topic.config).drop_table_on_delete:
        catalog.drop(catalog.layout(topic.id, topic.name, topic.config))
