"""Whose table a name is: no two live topics may ask for the same table.

What always holds: a topic's table is named by `lakestream.table.name` or else after the topic, and
whoever takes a name holds one lock for all of them, so two topics never take it at the same time.
"""

import json
from collections.abc import Mapping
from typing import Final

from lakestream_spark.core.errors import InvalidConfig
from lakestream_spark.metadata.database import Exclusive, Fetch, Transaction
from lakestream_spark.metadata.topic_config import TopicConfig
from lakestream_spark.metadata.topic_config.lakestream import NAMESPACE, TABLE_NAME

_LOCK_KEY: Final = 0x7461626C  # any number but that of the migrations


def lock_table_names() -> Transaction[None]:
    """Until the end of the transaction nobody else takes a name."""
    yield Exclusive(_LOCK_KEY)


def claim_table_name(topic: str, config: Mapping[str, str]) -> Transaction[None]:
    """Raises `InvalidConfig` when the topic's table is that of another live topic."""
    wanted = _named(topic, config)
    # Of the topics' own names: one with other characters gives a table that ends in a hash, which
    # no setting may.
    rows = yield Fetch(
        "SELECT name, config FROM topics WHERE deleted_ms IS NULL AND name <> $1 "
        "AND (name = $2 OR config LIKE $3)",
        (topic, wanted[1], f'%"{TABLE_NAME}"%'),
    )
    for name, text in rows:
        if _named(name, json.loads(text)) == wanted:
            raise InvalidConfig(
                f"the table {'.'.join(wanted)!r} is that of the topic {name!r}; "
                f"choose another name with {TABLE_NAME}"
            )


def _named(topic: str, config: Mapping[str, str]) -> tuple[str, str]:
    return TopicConfig.of(config).table or (NAMESPACE, topic)
