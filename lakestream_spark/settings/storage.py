"""Where the data lies, as values made from the settings; quick to load, unlike the other specs."""

from lakestream_spark.objectstore.options import StoreOptions
from lakestream_spark.objectstore.spec import StoreSpec
from lakestream_spark.settings.tree import Settings
from lakestream_spark.table.spec import CatalogSpec


def catalog_spec(settings: Settings) -> CatalogSpec:
    catalog = settings.catalog
    return CatalogSpec(
        name=catalog.name,
        warehouse=catalog.warehouse,
        properties={"type": catalog.type, "uri": catalog.uri, **catalog.properties},
    )


def wal_stores(settings: Settings) -> dict[str, StoreSpec]:
    """The WAL store of each profile; the options are for stores of the scheme of `store.url`."""
    options = StoreOptions(**settings.store.model_dump(exclude={"url"}, exclude_defaults=True))
    scheme = settings.store.url.partition("://")[0]
    urls = {"cost": settings.store.url, "latency": settings.wal.latency.url}
    return {
        profile: StoreSpec(
            url=url, options=options if url.startswith(f"{scheme}://") else StoreOptions()
        )
        for profile, url in urls.items()
    }
