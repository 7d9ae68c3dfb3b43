"""A real Iceberg REST catalog for the tests: the server of Iceberg's own test fixtures.

It runs in a JVM that py4j starts, on loopback only, over a SQLite file and a local warehouse. Its
jars are fetched once into the user's cache.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from py4j.java_gateway import (  # type: ignore[import-untyped]
    GatewayParameters,
    JavaGateway,
    launch_gateway,
)

from lakestream_spark.spark.jars import require_java, require_pyspark
from lakestream_spark.table.iceberg import CatalogSpec
from tests.support.fetching import cache_folder, one_at_a_time, run_patiently
from tests.support.kafka_jars import fetched

VERSION: Final = "1.10.1"
_LIBRARIES: Final = (
    f"org.apache.iceberg:iceberg-core:{VERSION}",
    "org.eclipse.jetty:jetty-servlet:11.0.26",
    "org.xerial:sqlite-jdbc:3.53.4.0",
    "org.slf4j:slf4j-nop:2.0.17",
    "org.junit.jupiter:junit-jupiter-api:5.13.4",
)
_FIXTURES: Final = (("iceberg-open-api", "test-fixtures"), ("iceberg-core", "tests"))
_SETTINGS: Final = """<ivysettings>
  <settings defaultResolver="repository"/>
  <caches defaultCacheDir="{cache}"/>
  <resolvers><ibiblio name="repository" m2compatible="true"{root}/></resolvers>
</ivysettings>"""
_MODULE: Final = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="tests" module="rest-catalog"/>
  <dependencies>{dependencies}</dependencies>
</ivy-module>"""
_DEPENDENCY: Final = """
    <dependency org="org.apache.iceberg" name="{name}" rev="{version}" transitive="false">
      <artifact name="{name}" type="jar" ext="jar" m:classifier="{classifier}"/>
    </dependency>"""


@contextmanager
def rest_catalog(folder: Path) -> Iterator[CatalogSpec]:
    """A running server over the folder, as pyiceberg and Spark open it."""
    port = launch_gateway(
        classpath=_classpath(), jarpath=str(_shipped("py4j-*.jar")), die_on_exit=True
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    warehouse = f"file://{folder}/warehouse"
    try:
        server = _started(gateway, f"jdbc:sqlite:{folder}/rest.db", warehouse)
        uri = f"http://127.0.0.1:{server.getURI().getPort()}"
        yield CatalogSpec(name="lake", warehouse=warehouse, properties={"type": "rest", "uri": uri})
        server.stop()
    finally:
        gateway.shutdown()


def _started(gateway: JavaGateway, database: str, warehouse: str) -> Any:
    jvm = gateway.jvm
    iceberg, jetty = jvm.org.apache.iceberg, jvm.org.eclipse.jetty
    properties = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": database,
        "warehouse": warehouse,
        "jdbc.schema-version": "V1",
        "clients": "1",
    }
    settings = jvm.java.util.HashMap()
    for key, value in properties.items():
        settings.put(key, value)
    configuration = jvm.org.apache.hadoop.conf.Configuration()
    catalog = iceberg.CatalogUtil.buildIcebergCatalog("lake", settings, configuration)
    servlet = iceberg.rest.RESTCatalogServlet(iceberg.rest.RESTCatalogAdapter(catalog))
    context = jetty.servlet.ServletContextHandler()
    context.addServlet(jetty.servlet.ServletHolder(servlet), "/*")
    server = jetty.server.Server(jvm.java.net.InetSocketAddress("127.0.0.1", 0))
    server.setHandler(context)
    server.start()
    return server


def _classpath() -> str:
    hadoop = (require_pyspark() / "jars").glob("hadoop-client-*.jar")
    return os.pathsep.join(map(str, [*fetched(_LIBRARIES), *_fixtures(), *hadoop]))


def _shipped(pattern: str) -> Path:
    """A jar that comes with Spark."""
    return next((require_pyspark() / "jars").glob(pattern))


def _fixtures() -> list[Path]:
    """Jars with a classifier, which spark-submit cannot name: Spark's Ivy fetches them."""
    folder = cache_folder() / "rest-catalog" / VERSION
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(folder.parent):
            if not folder.is_dir():
                with TemporaryDirectory(prefix="resolving-", dir=folder.parent) as scratch:
                    _retrieved(Path(scratch)).rename(folder)
    return sorted(folder.glob("*.jar"))


def _retrieved(scratch: Path) -> Path:
    mirror = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY")
    root = f' root="{mirror}"' if mirror else ""
    settings = scratch / "settings.xml"
    settings.write_text(_SETTINGS.format(cache=scratch / "cache", root=root))
    module = scratch / "module.xml"
    dependencies = [
        _DEPENDENCY.format(name=name, version=VERSION, classifier=classifier)
        for name, classifier in _FIXTURES
    ]
    module.write_text(_MODULE.format(dependencies="".join(dependencies)))
    names = scratch / "jars" / "[artifact]-[revision]-[classifier].[ext]"
    command = [str(require_java()), "-jar", str(_shipped("ivy-*.jar")), "-settings", str(settings)]
    command += ["-ivy", str(module), "-retrieve", str(names)]
    done = run_patiently(command)
    assert done.returncode == 0, f"the REST catalog could not be fetched: {done.stdout[-2000:]}"
    return scratch / "jars"
