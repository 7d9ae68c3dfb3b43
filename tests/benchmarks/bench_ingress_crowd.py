"""A thousand idle connections and five thousand partitions: memory, and whether it still works.

An idle connection has said hello once, as every client does. Its memory is the growth of the
broker's resident memory divided by their number; the kernel's own buffers are not in it. A hundred
connections are open before, so that what is allocated once is not counted.
"""

import time
from itertools import pairwise
from typing import Final

from tests.benchmarks.brokers import LATENCY, contenders
from tests.benchmarks.harness import Aim, Options, Report, run
from tests.support.idle_connections import allow_files, idle_connections
from tests.support.wide_topic import consume_each, create_wide, produce_to_each

_AIM_KB: Final = 50.0
_FIRST: Final = 100
_SETTLE_S: Final = 1.0


async def measure(report: Report, options: Options) -> None:
    connections, partitions = (100, 200) if options.quick else (1_000, 5_000)
    allow_files(2 * connections + 1_024)
    with contenders(LATENCY) as brokers:
        ours = brokers[LATENCY]
        with idle_connections(ours.bootstrap, _FIRST):
            time.sleep(_SETTLE_S)
            before = ours.rss()
            with idle_connections(ours.bootstrap, connections):
                time.sleep(_SETTLE_S)
                kb = (ours.rss() - before) / connections / 1_000
                took = {"idle_connections": connections, "kb_per_connection": kb}
                took |= work(ours.bootstrap, partitions)
        report.add(broker=LATENCY, durability=ours.durability, **took)
    report.aims.append(Aim.at_most("memory per idle connection", _AIM_KB, kb, "KB"))
    works = f"{partitions:,} partitions beside {connections:,} idle connections"
    report.aims.append(Aim(works, "every record comes back", "every record came back", True))


def work(bootstrap: str, partitions: int) -> dict[str, float]:
    """Seconds to create the topic, to write a record to each partition, and to read them."""
    at = [time.monotonic()]
    create_wide(bootstrap, "wide", partitions)
    at.append(time.monotonic())
    produce_to_each(bootstrap, "wide", partitions)
    at.append(time.monotonic())
    found = consume_each(bootstrap, "wide", partitions)
    at.append(time.monotonic())
    assert found == {index: [str(index).encode()] for index in range(partitions)}
    names = ("create_s", "produce_s", "consume_s")
    return {
        "partitions": partitions,
        **{name: end - start for name, (start, end) in zip(names, pairwise(at), strict=True)},
    }


if __name__ == "__main__":
    run("ingress_crowd", measure)
