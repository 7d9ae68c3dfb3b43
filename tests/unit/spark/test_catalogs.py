import pytest

from lakestream_spark.core.errors import Misconfigured
from lakestream_spark.spark.catalogs import catalog_conf
from lakestream_spark.table.spec import CatalogSpec


def told(warehouse: str = "file:///w", **properties: str) -> dict[str, str]:
    spec = CatalogSpec(name="lake", warehouse=warehouse, properties=properties)
    prefix = "spark.sql.catalog.lake."
    return {key.removeprefix(prefix): value for key, value in catalog_conf(spec).items()}


def test_sqlite_catalog_is_the_same_file_in_spark() -> None:
    conf = told(type="sql", uri="sqlite:////data/catalog.db")
    assert conf["uri"] == "jdbc:sqlite:/data/catalog.db"
    assert (conf["type"], conf["jdbc.schema-version"]) == ("jdbc", "V1")


def test_postgres_catalog_is_the_same_schema_in_spark_and_its_password_has_a_key_of_its_own() -> (
    None
):
    for query in ("search_path=s", "options=-csearch_path%3Ds"):
        uri = f"postgresql+psycopg2://me:p%40ss@db:5433/lake?{query}&sslmode=disable"
        conf = told(type="sql", uri=uri)
        place, _, options = conf["uri"].partition("?")
        assert place == "jdbc:postgresql://db:5433/lake"
        assert set(options.split("&")) == {"currentSchema=s", "sslmode=disable"}
        assert (conf["jdbc.user"], conf["jdbc.password"]) == ("me", "p@ss")
        assert (conf["jdbc.connectTimeout"], conf["jdbc.socketTimeout"]) == ("10", "60")


def test_other_catalogs_are_told_to_spark_as_they_are() -> None:
    conf = told(type="rest", uri="http://c", token="t", **{"py-io-impl": "ours"})
    assert (conf["type"], conf["uri"], conf["token"]) == ("rest", "http://c", "t")
    assert "py-io-impl" not in conf


def test_tables_on_s3_are_reached_by_the_names_that_java_has() -> None:
    place = {"s3.endpoint": "http://s3:7070", "s3.region": "r", "s3.access-key-id": "k"}
    conf = told("s3://bucket/w", type="sql", uri="sqlite:////c.db", **place)
    assert conf["io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
    assert (conf["client.region"], conf["s3.path-style-access"]) == ("r", "true")
    assert (conf["s3.endpoint"], conf["s3.access-key-id"]) == ("http://s3:7070", "k")
    assert "s3.region" not in conf


def test_what_is_said_of_s3_is_kept_and_amazon_is_asked_by_its_own_rules() -> None:
    conf = told("s3://b", type="sql", uri="sqlite:////c.db", **{"io-impl": "mine"})
    assert conf["io-impl"] == "mine"
    assert "s3.path-style-access" not in conf
    assert "io-impl" not in told("s3://b", type="rest", uri="http://c")
    assert "io-impl" not in told(type="sql", uri="sqlite:////c.db")


@pytest.mark.parametrize("uri", ["mysql://db/lake", "postgresql:///lake?host=/run/postgres"])
def test_catalog_that_spark_cannot_reach_is_refused(uri: str) -> None:
    with pytest.raises(Misconfigured):
        told(type="sql", uri=uri)
