"""Topic settings: which there are, what they may be, and what a topic's settings say.

Owns the list of settings (`kafka` for those with Kafka's names, `lakestream` for ours), the check
of what a client sends (`checked`) and typed access for the rest of the code (`values`). What always
holds: a name that is not listed and a value that is not allowed are refused before they are stored.
"""

from lakestream_spark.metadata.topic_config.checked import SETTINGS, check_config
from lakestream_spark.metadata.topic_config.kinds import Kind, Setting
from lakestream_spark.metadata.topic_config.values import TopicConfig

__all__ = ["SETTINGS", "Kind", "Setting", "TopicConfig", "check_config"]
