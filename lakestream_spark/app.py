"""Settings -> components -> process: the only place where the parts are put together.

Nothing here imports pyspark: a broker needs no JVM.

The order of a start is the order of what depends on what, and a stop is the same backwards: the
port is bound before anything is touched, the broker joins before its writers register, it serves
last. So a stop ends accepting, leaves the registry, answers what is in flight, closes the writers,
and only then lets go of the stores.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from lakestream_spark.console import Access, Parts, StatusPage
from lakestream_spark.core import metrics
from lakestream_spark.core.clock import Clock, SystemClock
from lakestream_spark.core.errors import Fenced, LakestreamError, NotFound, Unavailable
from lakestream_spark.core.ids import BrokerId
from lakestream_spark.core.logs import event
from lakestream_spark.core.series import Level
from lakestream_spark.groups import GroupService
from lakestream_spark.history.remote import HistoryProcess
from lakestream_spark.ingress.admin import Health, Probe, State, admin_site
from lakestream_spark.ingress.broker import Address, Admin, Broker, Log
from lakestream_spark.ingress.cluster import ClusterView
from lakestream_spark.ingress.fetch_sessions import FetchSessions
from lakestream_spark.ingress.housekeeping import Housekeeping
from lakestream_spark.ingress.listening import listen
from lakestream_spark.ingress.machine import new_incarnation, refuse_other_machines
from lakestream_spark.ingress.server import Listener
from lakestream_spark.ingress.sole import NodeLock
from lakestream_spark.ingress.stopping import GracefulStop
from lakestream_spark.ingress.tail import TailWatch
from lakestream_spark.ingress.topic_cache import CachedTopics
from lakestream_spark.ingress.upkeep import Loop, Upkeep, forever
from lakestream_spark.ingress.wal_events import WalEvents
from lakestream_spark.metadata import Metadata, open_metadata
from lakestream_spark.metadata.brokers import Node, Registration
from lakestream_spark.objectstore.store import ObjectStore
from lakestream_spark.settings import Settings
from lakestream_spark.settings.specs import (
    catalog_spec,
    connection_limits,
    flush_policies,
    group_limits,
    housekeeping_policy,
    liveness,
    request_limits,
    shown_settings,
    wal_stores,
)
from lakestream_spark.wal.budget import ByteBudget
from lakestream_spark.wal.cache import WalCache
from lakestream_spark.wal.reader import WalReader
from lakestream_spark.wal.restored import refuse_restored_metadata
from lakestream_spark.wal.writer import WalWriter

__all__ = [
    "RunningBroker",
    "catalog_spec",
    "flush_policies",
    "running_broker",
    "serve",
    "wal_stores",
]

_EXPIRE_GROUPS_S: Final = 600.0
_log: Final = logging.getLogger(__name__)
_NOTHING: Final = "wal/is-the-store-there"
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBroker:
    """A broker that serves, and the parts and stores it serves from."""

    address: Address
    metadata: Metadata
    cluster: ClusterView
    tail: TailWatch
    groups: GroupService
    log: Log
    history: HistoryProcess
    upkeep: asyncio.Task[None]
    """Ends only when the broker has lost its place, with `Fenced`."""

    @property
    def bootstrap(self) -> str:
        return f"{self.address.host}:{self.address.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What a broker is made of."""

    settings: Settings
    clock: Clock
    metadata: Metadata
    history: HistoryProcess
    stores: Mapping[str, ObjectStore]
    cache: WalCache
    cluster: ClusterView
    tail: TailWatch
    writers: Mapping[str, WalWriter]
    groups: GroupService


async def serve(
    settings: Settings, stop: asyncio.Event, ready: Callable[[RunningBroker, int], None]
) -> None:
    """One broker with its admin port until `stop` is set; `ready` gets the admin port too.

    Raises `Fenced` when another process took the node id, `Unavailable` when the others took this
    broker for dead: it may start again.
    """
    if settings.broker.host not in _LOOPBACK:
        sentence = "there is no authentication yet: who reaches this port may read and write all"
        event(_log, logging.WARNING, sentence, host=settings.broker.host)
    health = Health(SystemClock())
    async with AsyncExitStack() as stack:
        sock = listen(
            settings.broker.admin_host, settings.broker.admin_port, setting="broker.admin_port"
        )
        page = StatusPage(_page_access(settings))
        await stack.enter_async_context(admin_site(sock, health, page.routes()))
        broker = await stack.enter_async_context(running_broker(settings, health))
        page.serving(_page_parts(broker))
        stack.push_async_callback(page.stop)
        ready(broker, sock.getsockname()[1])
        await _until_stopped(broker, stop, health)


def _page_access(settings: Settings) -> Access:
    own = settings.broker
    token = None if own.admin_token is None else own.admin_token.get_secret_value()
    return Access(host=own.admin_host, token=token)


def _page_parts(broker: RunningBroker) -> Parts:
    return Parts(
        node_id=broker.address.node_id,
        metadata=broker.metadata,
        tail=broker.log.reader,
        history=broker.history,
        live_nodes=lambda: {node.node_id for node in broker.cluster.brokers()},
        clock=SystemClock(),
    )


async def _until_stopped(broker: RunningBroker, stop: asyncio.Event, health: Health) -> None:
    stopping = asyncio.create_task(stop.wait(), name="stop")
    await asyncio.wait([stopping, broker.upkeep], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not broker.upkeep.done():
        return
    health.state = State.FENCED
    try:
        await broker.upkeep
    except Fenced as fenced:
        event(_log, logging.ERROR, "the broker stops: it lost its place", error=fenced)
        if fenced.facts.get("replaced_by") is None:
            raise Unavailable(fenced.message, **fenced.facts) from fenced
        raise


@asynccontextmanager
async def running_broker(
    settings: Settings, health: Health | None = None
) -> AsyncIterator[RunningBroker]:
    """One broker, from its settings to its open port; stopped in good order when the block ends."""
    clock = SystemClock()
    health = health or Health(clock)
    stop = GracefulStop(clock, settings.broker.shutdown_timeout_ms / 1000)
    async with AsyncExitStack() as stack:
        sock = listen(settings.broker.host, settings.broker.port)
        stack.callback(sock.close)
        parts = await _open_parts(settings, sock, stack, stop)
        broker = _broker(parts)
        listener = Listener(broker, sock, connection_limits(settings))
        house = Housekeeping(
            parts.metadata, parts.stores, parts.cluster, clock, housekeeping_policy(settings)
        )
        upkeep = _upkeep(parts, house, listener)
        stack.push_async_callback(stop.step, "release the leases", house.release)
        stack.push_async_callback(stop.step, "answer", lambda: listener.drain(stop.left_s))
        # After the listener and before the answers: who waits to join is told to go elsewhere.
        groups = asyncio.create_task(forever("groups", parts.groups.run, clock), name="groups")
        stack.push_async_callback(_end, groups)
        stack.callback(parts.tail.wake_all)
        stack.push_async_callback(stop.step, "leave the registry", parts.cluster.leave)
        stack.callback(listener.stop_accepting)
        _watch(parts, broker, listener, upkeep, stack)
        await parts.cluster.look()
        await listener.start()
        running = asyncio.create_task(upkeep.run(), name="upkeep")
        stack.push_async_callback(_end, running)
        ahead = asyncio.create_task(_start_history(parts), name="start-history")
        stack.push_async_callback(_end, ahead)
        stack.callback(health.stopping)
        stack.callback(stop.begin)
        health.serving(_probes(parts), upkeep.stale)
        yield RunningBroker(
            address=broker.address,
            metadata=parts.metadata,
            cluster=parts.cluster,
            tail=parts.tail,
            groups=parts.groups,
            log=broker.log,
            history=parts.history,
            upkeep=running,
        )


async def _open_parts(
    settings: Settings, sock: socket.socket, stack: AsyncExitStack, stop: GracefulStop
) -> _Parts:
    clock = SystemClock()
    metadata = await open_metadata(settings.metadata.url, clock=clock)
    stack.push_async_callback(metadata.close)
    sole = NodeLock(settings.metadata.url, settings.broker.id)
    stack.callback(sole.release)
    await sole.hold(metadata.brokers, clock)
    history = HistoryProcess(catalog_spec(settings), settings.history.memory_bytes)
    stack.push_async_callback(history.close)
    stores = {profile: spec.open() for profile, spec in wal_stores(settings).items()}
    for store in {store.url: store for store in stores.values()}.values():
        await refuse_restored_metadata(store, metadata.writers)
    cluster = await _join(settings, sock, metadata, clock)
    # A net: a start that fails from here on leaves as well.
    stack.push_async_callback(stop.step, "leave the registry", cluster.leave)
    cache = WalCache(settings.wal.cache_bytes)
    tail = TailWatch(metadata.extents)
    watching = asyncio.create_task(forever("tail", tail.run, clock), name="tail")
    stack.push_async_callback(_end, watching)
    writers = {
        profile: WalWriter(
            await metadata.writers.register(BrokerId(settings.broker.id), profile),
            policy,
            store=stores[profile],
            sequencer=metadata.sequencer,
            cache=cache,
            clock=clock,
            events=WalEvents(tail),
        )
        for profile, policy in flush_policies(settings).items()
    }
    groups = GroupService(
        metadata.leases,
        metadata.group_offsets,
        cluster,
        clock=clock,
        limits=group_limits(settings),
    )
    for writer in writers.values():
        # Closed first, then fenced: what it could not commit is an orphan that may be collected.
        fence = partial(metadata.writers.fence, writer.identity)
        stack.push_async_callback(stop.step, "fence a WAL writer", fence)
        await writer.__aenter__()
        stack.push_async_callback(stop.step, "close a WAL writer", writer.close)
    return _Parts(
        settings=settings,
        clock=clock,
        metadata=metadata,
        history=history,
        stores=stores,
        cache=cache,
        cluster=cluster,
        tail=tail,
        writers=writers,
        groups=groups,
    )


async def _join(
    settings: Settings, sock: socket.socket, metadata: Metadata, clock: Clock
) -> ClusterView:
    node = Node(
        node_id=settings.broker.id,
        host=settings.broker.advertised_host,
        port=sock.getsockname()[1],
        rack=settings.broker.rack,
    )
    me = Registration(node, new_incarnation(), clock.wall_ms())
    own = liveness(settings)
    folders = any(spec.url.startswith("file://") for spec in wal_stores(settings).values())
    # One SQLite file is on one host by itself.
    if folders and metadata.database.dialect_name != "sqlite":
        await refuse_other_machines(me, metadata.brokers, clock, own)
    if await metadata.brokers.join(me) is not None:
        event(
            _log, logging.WARNING, "took over the node id of an earlier broker", node=node.node_id
        )
    return ClusterView(me, metadata.brokers, clock, own)


def _broker(parts: _Parts) -> Broker:
    """What the handlers get."""
    metadata, me = parts.metadata, parts.cluster.me
    topics = CachedTopics(metadata.topics, parts.clock)
    log = Log(
        topics=topics,
        writers=parts.writers,
        index=metadata.extents,
        reader=WalReader(metadata.extents, parts.stores, parts.cache),
        history=parts.history,
        producers=metadata.producers,
    )
    admin = Admin(
        topics=metadata.topics,
        records=metadata.retention,
        log_dirs={profile: spec.url for profile, spec in wal_stores(parts.settings).items()},
        changed=topics.forget,
        settings=shown_settings(parts.settings),
    )
    limits = request_limits(parts.settings)
    sessions = FetchSessions(Random(), max_sessions=parts.settings.broker.max_fetch_sessions)
    return Broker(
        address=Address(node_id=me.node_id, host=me.host, port=me.port, rack=me.rack),
        cluster=parts.cluster,
        log=log,
        admin=admin,
        tail=parts.tail,
        limits=limits,
        sessions=sessions,
        inflight=ByteBudget(limits.max_inflight_bytes),
        groups=parts.groups,
    )


async def _start_history(parts: _Parts) -> None:
    """A broker without a table to read needs no process for it, and starts none."""
    with suppress(LakestreamError):  # Said by whoever asks the metadata store next.
        if await parts.metadata.tables.have_rows():
            await parts.history.start_ahead()


def _upkeep(parts: _Parts, house: Housekeeping, listener: Listener) -> Upkeep:
    own = liveness(parts.settings)
    heartbeat = Loop(
        name="heartbeat",
        every_s=own.beat_s,
        work=parts.cluster.tick,
        stale_after_s=own.session_s,
        vital=True,
    )
    tend = Loop(name="connections", every_s=10.0, work=listener.tend, stale_after_s=60.0)
    groups = Loop(
        name="group offsets",
        every_s=_EXPIRE_GROUPS_S,
        work=partial(_expire_groups, parts.groups),
        stale_after_s=3 * _EXPIRE_GROUPS_S,
    )
    return Upkeep([heartbeat, tend, groups, *house.loops(own)], parts.clock, Random())


async def _expire_groups(groups: GroupService) -> bool:
    await groups.offsets.expire()
    return False


def _probes(parts: _Parts) -> dict[str, Probe]:
    stores = {f"WAL store {store.url}": partial(_reach, store) for store in parts.stores.values()}
    return {"metadata store": parts.metadata.ping, **stores}


async def _reach(store: ObjectStore) -> None:
    with suppress(NotFound):
        await store.head(_NOTHING)


def _watch(
    parts: _Parts, broker: Broker, listener: Listener, upkeep: Upkeep, stack: AsyncExitStack
) -> None:
    """What the metrics page reads when somebody asks for it."""
    levels: list[tuple[Level, Callable[[], float]]] = [
        (metrics.CONNECTIONS.of(), lambda: listener.connections),
        (metrics.REQUESTS_IN_FLIGHT.of(), lambda: listener.requests_in_flight),
        (metrics.BYTES_IN_FLIGHT.of(), lambda: broker.inflight.used),
        (metrics.CACHE_HITS.of(), lambda: parts.cache.hits),
        (metrics.CACHE_MISSES.of(), lambda: parts.cache.misses),
        (metrics.CACHE_BYTES.of(), lambda: parts.cache.held_bytes),
        (metrics.HISTORY_IN_FLIGHT.of(), lambda: parts.history.bytes_in_flight),
        (metrics.HISTORY_CACHE_BYTES.of(), lambda: parts.history.figures.kept_bytes),
        (metrics.BROKERS.of(), lambda: len(parts.cluster.brokers())),
    ]
    for profile, writer in parts.writers.items():
        own = (metrics.WAL_QUEUE.of(profile), metrics.WAL_BYTES_IN_FLIGHT.of(profile))
        levels += zip(own, _readers(writer), strict=True)
    levels += [(metrics.LOOP_AGE.of(name), partial(upkeep.age_s, name)) for name in upkeep.names]
    for level, read in levels:
        stack.callback(level.watch(read))


def _readers(writer: WalWriter) -> tuple[Callable[[], float], Callable[[], float]]:
    return lambda: writer.queued_segments, lambda: writer.inflight_bytes


async def _end(task: asyncio.Task[None]) -> None:
    """Whatever became of it: who waits for the task itself learns that."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
