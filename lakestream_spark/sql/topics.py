"""Which topic a query means by a name: the topic's own, or its table's as the catalog names it.

DuckDB does not tell capitals from small letters, Kafka does: a name that fits exactly comes first.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from lakestream_spark.core.errors import UnknownTopic
from lakestream_spark.metadata.topics import Topic
from lakestream_spark.sql.references import Reference
from lakestream_spark.table.layout import TableLayout
from lakestream_spark.table.spec import CatalogSpec

MAIN: Final = "main"
"""The schema of the topics by their own names."""


class Topics:
    """All topics of an installation, none of them opened."""

    def __init__(self, topics: Sequence[Topic], catalog: CatalogSpec) -> None:
        self._catalog = catalog.name
        self._by_name = {each.name: each for each in topics}
        self._by_table = {_table(each, catalog): each for each in topics}

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    def find(self, asked: Reference) -> Topic | None:
        """None when no topic and no table has the name: it may be a file, or part of the query."""
        if asked.catalog not in ("", self._catalog):
            return None
        if asked.schema in ("", MAIN, self._catalog):
            return _named(self._by_name, asked.name)
        return _named(self._by_table, f"{asked.schema}.{asked.name}")

    def unknown(self, asked: Reference) -> UnknownTopic:
        """What to say of a name that is nowhere."""
        text = ".".join(part for part in asked if part)
        known = self._by_table if asked.schema else self._by_name
        near = get_close_matches(text, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "`lakestream topic list` shows all"
        return UnknownTopic(f"there is no topic {text}; {hint}")


def _table(topic: Topic, catalog: CatalogSpec) -> str:
    layout = TableLayout(
        warehouse=catalog.warehouse, topic_id=topic.id, topic_name=topic.name, config=topic.config
    )
    return ".".join(layout.identifier)


def _named(known: dict[str, Topic], name: str) -> Topic | None:
    if name in known:
        return known[name]
    alike = [topic for each, topic in known.items() if each.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None
