"""Where everything lies, as those who read topics take it; nothing is opened."""

from lakestream_spark.settings.storage import catalog_spec, wal_stores
from lakestream_spark.settings.tree import Settings
from lakestream_spark.spark.reading.installation import Installation


def installation_of(settings: Settings) -> Installation:
    return Installation(
        metadata_url=settings.metadata.url,
        stores=wal_stores(settings),
        catalog=catalog_spec(settings),
    )
