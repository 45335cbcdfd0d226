"""What tests of whole servers share: a server as a child process, its output as lines, deadlines.

A server listens on port 0 and its banner gives the port, so tests run side by side. It is ended by its id.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

DEADLINE = 30.0
LISTENING = "Oxbrook listening on "


def eventually(condition: Callable[[], object], what: str, deadline: float = DEADLINE) -> None:
    """Wait for a condition; fail naming it when the deadline passes first."""
    end = time.monotonic() + deadline
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline} s: {what}")
        time.sleep(0.01)


class Lines:
    """The lines of one output stream, collected by a thread."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.is_closed = False
        self.changed = threading.Condition()

    def collect(self, stream: object) -> None:
        """Take every line until the stream ends."""
        for raw in stream:  # type: ignore[attr-defined]
            with self.changed:
                self.lines.append(raw.decode().rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.is_closed = True
            self.changed.notify_all()

    def wait_for(self, part: str, start: int = 0) -> str:
        """Return the first line from index `start` on that contains `part`."""
        return self.lines[self.index_of(part, start)]

    def index_of(self, part: str, start: int = 0) -> int:
        """Wait for a line that contains `part`, from index `start` on, and return its index."""
        end = time.monotonic() + DEADLINE
        with self.changed:
            while True:
                for index in range(start, len(self.lines)):
                    if part in self.lines[index]:
                        return index
                left = end - time.monotonic()
                if self.is_closed or left <= 0:
                    raise AssertionError(f"no line with {part!r} in {self.text!r}")
                self.changed.wait(left)

    @property
    def text(self) -> str:
        """All lines so far."""
        return "\n".join(self.lines)


class Command:
    """The `oxbrook` command as a child process; a context manager that ends it."""

    def __init__(
        self,
        arguments: Sequence[str],
        directory: Path,
        environ: Mapping[str, str] | None = None,
        interpreter_flags: Sequence[str] = (),
        pass_fds: Sequence[int] = (),
        module: str = "oxbrook",
    ) -> None:
        self.out = Lines()
        self.err = Lines()
        inherited = {name: value for name, value in os.environ.items() if not is_ours(name)}
        self.process = subprocess.Popen(
            [sys.executable, *interpreter_flags, "-m", module, *arguments],
            cwd=directory,
            env={**inherited, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=pass_fds,
        )
        self.readers = [
            threading.Thread(target=lines.collect, args=(stream,), daemon=True)
            for lines, stream in ((self.out, self.process.stdout), (self.err, self.process.stderr))
        ]
        for reader in self.readers:
            reader.start()

    @property
    def url(self) -> str:
        """The address of the banner, once it is printed."""
        return self.url_after(0)[0]

    def url_after(self, start: int) -> tuple[str, int]:
        """Wait for a banner from line `start` on; return its address and the index of the next line."""
        try:
            index = self.out.index_of(LISTENING, start)
        except AssertionError as error:
            raise AssertionError(f"{error}; stderr: {self.err.text}") from None
        return self.out.lines[index].partition(LISTENING)[2], index + 1

    def ended(self) -> int:
        """Wait for its end and return the exit code, all output collected."""
        code = self.process.wait(DEADLINE)
        for reader in self.readers:
            reader.join(DEADLINE)
        return code

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a stop signal and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.ended()

    def __enter__(self) -> Command:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            if self.process.poll() is None:
                self.process.terminate()
                self.ended()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            for reader in self.readers:
                reader.join(DEADLINE)
            for stream in (self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()


def is_ours(name: str) -> bool:
    """Whether a variable would change what the command does; tests give their own."""
    ours = ("PORT", "LISTEN_FDS", "LISTEN_PID", "PYTHON_GIL", "PYTHONDONTWRITEBYTECODE")
    return name.startswith("OXBROOK_") or name in ours


def ids_below(process_id: int) -> list[int]:
    """Return the ids of the direct children of a process (Linux)."""
    text = Path(f"/proc/{process_id}/task/{process_id}/children").read_text()
    return [int(part) for part in text.split()]
