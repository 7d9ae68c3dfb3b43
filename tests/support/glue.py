"""AWS Glue as far as it can be had without AWS: moto's server, on loopback."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moto.server import ThreadedMotoServer

from lakestream_spark.table.iceberg import CatalogSpec


@contextmanager
def glue_catalog(folder: Path) -> Iterator[CatalogSpec]:
    """A Glue catalog whose tables lie in the folder."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    properties = {
        "type": "glue",
        "glue.endpoint": f"http://{host}:{port}",
        "glue.region": "eu-central-1",
        "glue.access-key-id": "key",
        "glue.secret-access-key": "secret",
    }
    try:
        yield CatalogSpec(
            name="lake", warehouse=f"file://{folder}/warehouse", properties=properties
        )
    finally:
        server.stop()
