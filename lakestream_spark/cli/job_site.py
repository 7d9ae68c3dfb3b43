"""The admin port of a job: the same pages as a broker's, served from a thread."""

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from lakestream_spark.core.clock import SystemClock
from lakestream_spark.ingress.admin import Health, admin_site
from lakestream_spark.ingress.listening import listen
from lakestream_spark.spark.background import BackgroundLoop


@contextmanager
def job_site(host: str, port: int, *, setting: str) -> Iterator[str]:
    """Serve `/metrics`, `/healthz` and `/readyz` until the block ends; gives the address."""
    sock = listen(host, port, setting=setting)
    health = Health(SystemClock())
    health.serving({}, list)
    with BackgroundLoop() as loop:
        stack = AsyncExitStack()
        loop.run(stack.enter_async_context(admin_site(sock, health)))
        try:
            yield f"{host}:{sock.getsockname()[1]}"
        finally:
            loop.run(stack.aclose())
