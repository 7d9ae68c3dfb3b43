import socket

import pytest

from lakestream_spark.core.errors import Unavailable
from lakestream_spark.table import rest
from lakestream_spark.table.iceberg import CatalogSpec, StreamCatalog


def test_catalog_that_hangs_is_an_outage_and_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rest, "ANSWER_WITHIN_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        properties = {"type": "rest", "uri": uri}
        spec = CatalogSpec(name="lake", warehouse="file:///nowhere", properties=properties)
        with pytest.raises(Unavailable, match="does not answer"):
            StreamCatalog.open(spec)
