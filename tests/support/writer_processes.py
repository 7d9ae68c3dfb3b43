"""Starts, kills, stops and wakes the processes of `crash_writer`."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_ROOT = Path(__file__).parents[2]


class WriterProcess:
    """One running writer; `exited` has its exit code, negative for a signal."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def alive(self) -> bool:
        return not self.exited.done()

    async def ended(self, *, within_s: float = 150.0) -> int:
        """The exit code, once it has ended by itself."""
        return await asyncio.wait_for(asyncio.shield(self.exited), within_s)

    async def kill(self) -> int:
        """SIGKILL; the exit code."""
        self._signal(signal.SIGKILL)
        return await self.ended()

    def fall_asleep(self) -> None:
        self._signal(signal.SIGSTOP)

    def wake_up(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.alive:
            os.kill(self.pid, number)


class Nursery:
    """`async with Nursery() as nursery:` one process that has everything imported and forks."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._listener: asyncio.Task[None] | None = None
        self._starting: asyncio.Queue[WriterProcess] = asyncio.Queue()
        self._running: dict[int, WriterProcess] = {}

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.crash_writer", "--nursery"),
            cwd=_ROOT,
            stdin=PIPE,
            stdout=PIPE,
        )
        self._listener = asyncio.create_task(self._listen(self._process), name="nursery")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for writer in list(self._running.values()):
            writer.wake_up()
            await writer.kill()
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._listener is not None
        self._process.stdin.close()
        await self._listener
        await self._process.wait()

    async def start(self, argv: Sequence[str]) -> WriterProcess:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(argv).encode() + b"\n")
        return await asyncio.wait_for(self._starting.get(), 150)

    async def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            match line.split():
                case [b"started", pid]:
                    writer = self._running[int(pid)] = WriterProcess(int(pid))
                    self._starting.put_nowait(writer)
                case [b"exited", pid, status]:
                    self._running.pop(int(pid)).exited.set_result(int(status))
                case _:
                    raise AssertionError(f"the nursery said {line!r}")
