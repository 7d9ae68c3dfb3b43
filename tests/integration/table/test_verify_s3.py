"""A verification where everything is in S3 and PostgreSQL."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from lakestream_spark.app import running_broker
from lakestream_spark.cli.verify import run_verify
from lakestream_spark.core.errors import Corrupt
from lakestream_spark.settings.specs import catalog_spec
from lakestream_spark.table.iceberg import StreamCatalog
from lakestream_spark.verify.pinned import Asked
from tests.support.kafka import Sent, produce
from tests.support.lake_place import Place, on_s3
from tests.support.postgres import postgres_server, postgres_url
from tests.support.s3 import S3Server, s3_server
from tests.support.sparkless import SparklessCompaction
from tests.support.verified import BOTH, TOPIC

__all__ = ["postgres_server", "postgres_url", "s3_server"]

pytestmark = [pytest.mark.s3, pytest.mark.postgres]


def compact(place: Place) -> None:
    compaction = SparklessCompaction(place)
    try:
        compaction.run_until_drained()
    finally:
        compaction.close()


async def test_a_topic_in_s3_gets_its_certificate_until_a_file_is_gone(
    tmp_path: Path, s3_server: S3Server, postgres_url: str
) -> None:
    place = on_s3(tmp_path, s3_server, postgres_url)
    async with running_broker(place.settings) as lake:
        await lake.metadata.topics.create(TOPIC, config=BOTH)
        sent = [Sent(b"k", b"v%d" % n) for n in range(50)]
        await asyncio.to_thread(produce, lake.bootstrap, TOPIC, sent)
        await asyncio.to_thread(compact, place)
        await asyncio.to_thread(produce, lake.bootstrap, TOPIC, sent[:5])
        certificate = await asyncio.to_thread(run_verify, place.settings, TOPIC, Asked())
        assert (certificate.partitions[0].rows, certificate.looked.files) == (50, 1)
        assert certificate.looked.wal_bytes > 0
        spec = catalog_spec(place.settings)
        with closing(StreamCatalog.open(spec)) as catalog:
            topic = await lake.metadata.topics.get(TOPIC)
            table = catalog.load(catalog.layout(topic.id, TOPIC, topic.config))
        assert table is not None
        (file,) = table.scan().plan_files()
        spec.file_io().delete(file.file.file_path)
        with pytest.raises(Corrupt, match="a data file of the table is not in the store"):
            await asyncio.to_thread(run_verify, place.settings, TOPIC, Asked())
