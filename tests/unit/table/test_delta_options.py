"""What pyiceberg is told reaches delta-rs by its own words, and delta-rs obeys it."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from deltalake import DeltaTable

from lakestream_spark.table.delta_options import storage_options

S3 = "s3://bucket/streams/orders"
GCS = "gs://bucket/streams/orders"
AZURE = "abfss://lake@shop.dfs.core.windows.net/streams/orders"
CASES = [
    ("file:///data/orders", {"s3.region": "r"}, {}),
    (S3, {}, {"aws_conditional_put": "etag"}),
    (
        "s3a://bucket/orders",
        {"client.region": "general", "s3.region": "special"},
        {"aws_conditional_put": "etag", "aws_region": "special"},
    ),
    (
        S3,
        {"s3.endpoint": "http://h:1", "s3.force-virtual-addressing": True},
        {
            "aws_conditional_put": "etag",
            "aws_endpoint": "http://h:1",
            "aws_virtual_hosted_style_request": "true",
            "allow_http": "true",
        },
    ),
    (GCS, {"gcs.project-id": "p", "adls.account-key": "k"}, {}),
    (GCS, {"gcs.service.host": "https://h"}, {"google_base_url": "https://h"}),
    (
        GCS,
        {"gcs.service.host": "http://h:1"},
        {"google_base_url": "http://h:1", "allow_http": "true"},
    ),
    (AZURE, {"s3.access-key-id": "k"}, {}),
    (
        AZURE,
        {"adls.account-name": "shop", "adls.account-key": "k"},
        {"azure_storage_account_name": "shop", "azure_storage_account_key": "k"},
    ),
    ("az://lake/orders", {"adls.sas-token": "sv=1"}, {"azure_storage_sas_token": "sv=1"}),
    (AZURE, {"adls.token": "t"}, {"azure_storage_token": "t"}),
    (
        AZURE,
        {"adls.tenant-id": "t", "adls.client-id": "c", "adls.client-secret": "s"},
        {
            "azure_storage_tenant_id": "t",
            "azure_storage_client_id": "c",
            "azure_storage_client_secret": "s",
        },
    ),
    (
        AZURE,
        {
            "adls.connection-string": "DefaultEndpointsProtocol=https;AccountName=shop;"
            "AccountKey=a2V5==;EndpointSuffix=core.windows.net"
        },
        {"azure_storage_account_name": "shop", "azure_storage_account_key": "a2V5=="},
    ),
    (
        AZURE,
        {"adls.connection-string": "BlobEndpoint=http://h:1/shop;SharedAccessSignature=sv=1&sig=2"},
        {
            "azure_storage_endpoint": "http://h:1/shop",
            "azure_storage_sas_token": "sv=1&sig=2",
            "allow_http": "true",
        },
    ),
    (
        AZURE,
        {"adls.blob-storage-authority": ".blob.core.chinacloudapi.cn"},
        {"azure_storage_endpoint": "https://shop.blob.core.chinacloudapi.cn"},
    ),
    (
        "abfss://lake/orders",
        {
            "adls.account-name": "shop",
            "adls.blob-storage-authority": "h:1",
            "adls.blob-storage-scheme": "http",
        },
        {
            "azure_storage_account_name": "shop",
            "azure_storage_endpoint": "http://h:1/shop",
            "allow_http": "true",
        },
    ),
]


@pytest.mark.parametrize(("location", "properties", "expected"), CASES)
def test_properties_become_the_words_of_delta(
    location: str, properties: dict[str, object], expected: dict[str, str]
) -> None:
    assert storage_options(location, properties) == expected


class Cloud(ThreadingHTTPServer):
    """Has nothing, and remembers who asked for it."""

    asked: list[str]


class _Request(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Cloud)
        self.server.asked.append(f"{self.path} {self.headers.get('authorization', '')}")
        self.send_response(404)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with Cloud(("127.0.0.1", 0), _Request) as server:
        server.asked = []
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("secret", "seen"),
    [
        ({"adls.account-key": "a2V5"}, "SharedKey shop:"),
        ({"adls.sas-token": "sv=1&sig=mine"}, "sig=mine"),
        ({"adls.token": "mine"}, "Bearer mine"),
    ],
)
def test_delta_asks_azure_with_the_secret_of_the_catalog(
    cloud: Cloud, secret: dict[str, str], seen: str
) -> None:
    properties = {
        "adls.account-name": "shop",
        "adls.blob-storage-authority": f"127.0.0.1:{cloud.server_port}",
        "adls.blob-storage-scheme": "http",
        **secret,
    }
    with pytest.raises(OSError, match="Azure"):
        DeltaTable(AZURE, storage_options=storage_options(AZURE, properties))
    assert cloud.asked[0].startswith("/shop/lake/streams/orders/_delta_log/")
    assert seen in cloud.asked[0]
