"""Client processes of the chaos run: started, told to stop, killed; each life has its journal."""

import signal
import subprocess
import sys
import threading
from itertools import count
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).parents[2]
END_S: Final = 180.0


class Client:
    """One process; `said` is the last line it printed."""

    def __init__(self, module: str, arguments: list[str], errors: Path) -> None:
        with errors.open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"tests.support.{module}", *arguments],
                cwd=_ROOT,
                stdin=subprocess.PIPE,  # Never written to: it ends when we do.
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        self.said = ""
        self._told = False
        self._errors = errors
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def tell_to_stop(self) -> None:
        """Once: an interpreter that ends by itself no longer handles a second signal."""
        if not self._told:
            self._told = True
            self.process.send_signal(signal.SIGTERM)

    def ended(self) -> int:
        """The exit code, waited for."""
        code = self.process.wait(END_S)
        self._listener.join()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        return code

    def kill(self) -> None:
        self.process.kill()
        self.ended()

    def complaint(self) -> str:
        """What all clients wrote to their error output, for a failed assertion."""
        return self._errors.read_text()[-4000:]

    def _listen(self) -> None:
        stream: Any = self.process.stdout
        for line in stream:
            self.said = line.decode().strip()


class Seat:
    """A place for a client that comes and goes: same arguments, a new journal for each life."""

    def __init__(self, module: str, journals: Path, name: str, arguments: list[str]) -> None:
        self._module = module
        self._journals = journals
        self._arguments = arguments
        self._lives = count(1)
        self._journal = journals
        self._progress = 0
        self.name = name
        self.client: Client | None = None

    @property
    def taken(self) -> Client:
        assert self.client is not None, f"nobody is {self.name}"
        return self.client

    @property
    def progress(self) -> int:
        """The numbers that its clients printed last, all lives together."""
        return self._progress + int((self.client and self.client.said) or 0)

    def start(self) -> None:
        self._journal = self._journals / f"{self.name}.{next(self._lives)}"
        arguments = [*self._arguments, "--journal", str(self._journal)]
        errors = self._journals.with_suffix(".errors")
        self.client = Client(self._module, arguments, errors)

    def kill(self) -> None:
        """As a crash would."""
        self.taken.kill()
        self._leave()

    def tell_to_stop(self) -> None:
        if self.client is not None:
            self.client.tell_to_stop()

    def ended(self) -> None:
        """It has stopped in good order; one that had hardly begun may not know how yet."""
        client = self.taken
        code = client.ended()
        unborn = code == -signal.SIGTERM and not self._journal.exists()
        assert code == 0 or unborn, f"{self.name} ended with {code}: {client.complaint()}"
        self._leave()

    def _leave(self) -> None:
        self._progress = self.progress
        self.client = None
