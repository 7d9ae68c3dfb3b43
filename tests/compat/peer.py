"""One bare connection to a cluster: what is sent is exactly known, what comes back is compared."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

from kio.schema.errors import ErrorCode

from lakestream_spark.kafka.batch import walk
from tests.compat.clusters import Cluster
from tests.support.asking import Asking
from tests.support.batches import make_batch
from tests.support.wire import Wire

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
CREATE_TOPICS: Final = 19

TIMEOUT: Final = timedelta(seconds=60)
NOBODY: Final = UUID("11111111-2222-3333-4444-555555555555")
CLOSED: Final = "the connection is closed"

# They differ by nature: places, names that were drawn by lot, and sentences for people.
_OWN_TO_A_CLUSTER: Final = frozenset(
    {"throttle_time", "error_message", "topic_id", "port", "cluster_id", "log_dir"}
)


class RawTopic(NamedTuple):
    name: str
    id: UUID


class Peer:
    """A cluster as a script sees it; the topic of a script has the same name on both."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.wire: Wire

    async def __aenter__(self) -> Self:
        self.wire = await Wire.connect(self.cluster.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.wire.close()

    def api(self, api_key: int, version: int) -> Asking:
        return Asking(self.wire, api_key, version)

    async def create(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> RawTopic:
        """Make a topic and wait until it can be written to."""
        name = name or self.topic
        api = self.api(CREATE_TOPICS, 7)
        answer = await api.ask(
            "CreateTopicsRequest",
            timeout=TIMEOUT,
            validate_only=False,
            topics=(
                api.part(
                    "CreatableTopic",
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replication_factor,
                    assignments=(),
                    configs=tuple(
                        api.part("CreatableTopicConfig", name=key, value=value)
                        for key, value in (configs or {}).items()
                    ),
                ),
            ),
        )
        (made,) = answer.topics
        assert made.error_code is ErrorCode.none, made
        for partition in range(partitions):
            await self._until_led(name, partition)
        return RawTopic(name, made.topic_id)

    async def _until_led(self, name: str, partition: int) -> None:
        """Kafka names a leader in its metadata a moment before that leader knows of it."""
        while True:
            found = await self.list_offsets(-1, topic=name, partition_index=partition)
            (topic,) = (await self.metadata(name)).topics
            known = [each.error_code for each in topic.partitions].count(ErrorCode.none)
            if found.error_code is ErrorCode.none and known > partition:
                return
            await asyncio.sleep(0.05)

    async def metadata(self, *names: str, version: int = 12, create: bool = False) -> Any:
        api = self.api(METADATA, version)
        return await api.ask(
            "MetadataRequest",
            topics=tuple(
                api.part("MetadataRequestTopic", topic_id=None, name=name) for name in names
            ),
            allow_auto_topic_creation=create,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )

    async def produce(
        self,
        batches: bytes | None,
        *,
        topic: str | RawTopic | None = None,
        partition: int = 0,
        acks: int = -1,
        version: int = 9,
        transactional_id: str | None = None,
    ) -> Any:
        """The answer for one partition."""
        named = topic or self.topic
        api = self.api(PRODUCE, version)
        answer = await api.ask(
            "ProduceRequest",
            transactional_id=transactional_id,
            acks=acks,
            timeout=TIMEOUT,
            topic_data=(
                api.part(
                    "TopicProduceData",
                    name=named.name if isinstance(named, RawTopic) else named,
                    topic_id=named.id if isinstance(named, RawTopic) else None,
                    partition_data=(
                        api.part("PartitionProduceData", index=partition, records=batches),
                    ),
                ),
            ),
        )
        return answer.responses[0].partition_responses[0]

    async def fetch(
        self,
        offset: int,
        *,
        topic: str | RawTopic | None = None,
        partition: int = 0,
        version: int = 12,
        **wanted: Any,
    ) -> Any:
        """The whole answer to a fetch of one partition, outside any session."""
        named = topic or self.topic
        api = self.api(FETCH, version)
        values = {
            "cluster_id": None,
            "replica_id": -1,
            "max_wait": timedelta(milliseconds=500),
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "forgotten_topics_data": (),
            "rack_id": "",
            "partition_max_bytes": 1 << 20,
            "current_leader_epoch": -1,
            **wanted,
        }
        if version >= 15:
            values["replica_state"] = api.part("ReplicaState", replica_id=-1, replica_epoch=-1)
        return await api.ask(
            "FetchRequest",
            topics=(
                api.part(
                    "FetchTopic",
                    topic=named.name if isinstance(named, RawTopic) else named,
                    topic_id=named.id if isinstance(named, RawTopic) else None,
                    partitions=(
                        api.part(
                            "FetchPartition",
                            partition=partition,
                            fetch_offset=offset,
                            last_fetched_epoch=-1,
                            log_start_offset=-1,
                            **values,
                        ),
                    ),
                ),
            ),
            **values,
        )

    async def list_offsets(
        self, timestamp: int, *, version: int = 7, topic: str | None = None, **wanted: Any
    ) -> Any:
        api = self.api(LIST_OFFSETS, version)
        values = {"partition_index": 0, "current_leader_epoch": -1, **wanted}
        answer = await api.ask(
            "ListOffsetsRequest",
            replica_id=-1,
            isolation_level=0,
            timeout=TIMEOUT,
            topics=(
                api.part(
                    "ListOffsetsTopic",
                    name=topic or self.topic,
                    partitions=(api.part("ListOffsetsPartition", timestamp=timestamp, **values),),
                ),
            ),
        )
        return answer.topics[0].partitions[0]


def plain(value: Any, *, without: Sequence[str] = ()) -> Any:
    """The answer as plain values, without what is own to a cluster."""
    if is_dataclass(value):
        if getattr(value, "error_code", ErrorCode.none) is not ErrorCode.none:
            # Null or empty: what is not there was not aborted either.
            without = (*without, "aborted_transactions")
        return {
            field.name: _records(part) if field.name == "records" else plain(part, without=without)
            for field in fields(value)
            if field.name not in _OWN_TO_A_CLUSTER and field.name not in without
            for part in [getattr(value, field.name)]
        }
    if isinstance(value, ErrorCode):
        return value.name
    if isinstance(value, tuple):
        return [plain(each, without=without) for each in value]
    if isinstance(value, datetime):
        return "a time"
    return value


def _records(data: bytes | None) -> Any:
    if not data:
        return []
    return [header._replace(crc=0) for _, header in walk(data, where="an answer")]


async def produced(peer: Peer, batches: bytes | None, **how: Any) -> Any:
    """The plain answer to a produce; where the log starts is compared on its own."""
    answer = await peer.produce(batches, **how)
    return plain(answer, without=("record_errors", "log_start_offset"))


async def filled(peer: Peer, *sizes: int, **how: Any) -> RawTopic:
    """A topic with a batch of each size."""
    topic = await peer.create(**how)
    for size in sizes:
        answer = await peer.produce(make_batch([b"v" * 10] * size))
        assert answer.error_code is ErrorCode.none, answer
    return topic
