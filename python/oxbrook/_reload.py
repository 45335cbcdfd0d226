"""The supervisor of `--reload`: runs the server as a child and starts it again when a watched file changes.

Invariant: the listening socket stays open in the supervisor from before the first child until the end, so a
connection made between two children waits in the backlog and none is refused.
"""

from __future__ import annotations

import importlib.util
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Final

from oxbrook._watch import Files, Notifier, has_notifier

SETTLE: Final = 0.1
# What a child gets beyond its own grace before it is killed.
KILL_AFTER: Final = 5.0
NAMES_SHOWN: Final = 3


class Child:
    """The server process; at most one runs at a time."""

    def __init__(
        self, command: Sequence[str], environ: dict[str, str], descriptor: int, shutdown_grace: float
    ) -> None:
        self.command = command
        self.environ = environ
        self.descriptor = descriptor
        self.shutdown_grace = max(0.0, shutdown_grace)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; the environment is the supervisor's original one, so an env file is read anew."""
        # The supervisor catches its stop signals, and what is caught is reset by exec: a child never inherits
        # them as ignored.
        self.process = subprocess.Popen(self.command, env=self.environ, pass_fds=(self.descriptor,))

    def ended(self) -> int | None:
        """Return the exit code of a child that ended by itself, once."""
        if self.process is None or self.process.poll() is None:
            return None
        code = self.process.returncode
        self.process = None
        return code

    def stop(self, is_told: bool = False) -> None:
        """Stop it as a server stops, then kill it; `is_told`: it got the supervisor's signal too."""
        process = self.process
        if process is None:
            return
        # A second signal would cut the grace short, so one that was told gets its grace first.
        if not (is_told and wait(process, self.shutdown_grace)):
            process.terminate()
            if not wait(process, self.shutdown_grace + KILL_AFTER):
                process.kill()
                process.wait()
        self.process = None

    def hurry(self) -> None:
        """End its grace: a server that is stopping takes a second signal so."""
        if self.process is not None:
            self.process.terminate()


def wait(process: subprocess.Popen[bytes], timeout: float) -> bool:
    """Whether the process ended within `timeout` seconds."""
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        return False
    return True


class Supervisor:
    """Waits for signals, changes and the child's end; runs on the main thread."""

    def __init__(self, child: Child, roots: Sequence[str], patterns: Sequence[str]) -> None:
        self.child = child
        self.roots = roots
        self.patterns = patterns
        self.files = Files(roots, patterns)
        self.stop_signal: int | None = None
        self.reader, self.writer = socket.socketpair()
        self.notifier: Notifier | None = None

    def run(self) -> int:
        """Supervise until a stop signal; return the exit status."""
        for end in (self.reader, self.writer):
            end.setblocking(False)
        say(f"watching {', '.join(self.roots)} for changes to {', '.join(self.patterns)}")
        signal.set_wakeup_fd(self.writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.on_stop)
        # Without a handler the end of the child would not be written to the wakeup descriptor.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        if has_notifier():
            self.notifier = Notifier(self.files.directories, self.poke)
        try:
            self.child.start()
            while self.stop_signal is None:
                self.wait()
                if self.stop_signal is None:
                    self.look()
        finally:
            if self.notifier is not None:
                self.notifier.stop()
            self.child.stop(is_told=self.stop_signal == signal.SIGINT and shares_terminal())
        return 0

    def on_stop(self, number: int, _frame: FrameType | None) -> None:
        """Remember the first stop signal, pass a second one on."""
        if self.stop_signal is None:
            self.stop_signal = number
        else:
            self.child.hurry()

    def poke(self) -> None:
        """Wake the supervisor from another thread."""
        with suppress(BlockingIOError):  # as many wakes as fit are waiting: it will wake
            self.writer.send(b"\0")

    def wait(self) -> None:
        """Sleep until a signal, a change, the child's end, or the next scan where nothing notifies."""
        is_polling = self.notifier is None or self.notifier.is_broken
        timeout = self.files.poll_interval if is_polling else None
        readable, _, _ = select.select([self.reader], [], [], timeout)
        if readable:
            self.reader.recv(4096)

    def look(self) -> None:
        """Report a child that ended, and restart it when something changed."""
        code = self.child.ended()
        if code is not None:
            print(
                f"oxbrook: the server exited with code {code}; waiting for a change",
                file=sys.stderr,
                flush=True,
            )
        changed = self.files.changed()
        if changed:
            time.sleep(SETTLE)
            changed |= self.files.changed()
            self.restart(changed)
        if self.notifier is not None and self.notifier.directories != self.files.directories:
            self.notifier.stop()
            self.notifier = Notifier(self.files.directories, self.poke)

    def restart(self, changed: Iterable[str]) -> None:
        """Replace the child."""
        names = sorted(shown(path, self.roots) for path in changed)
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        say(f"{', '.join(names[:NAMES_SHOWN])}{more} changed; restarting")
        self.child.stop()
        for path in changed:
            forget_bytecode(path)
        if self.stop_signal is None:
            self.child.start()


def say(text: str) -> None:
    """Print one line at once."""
    print(f"oxbrook: {text}", flush=True)


def shown(path: str, roots: Iterable[str]) -> str:
    """Return a path as seen from the watched directory it lies in."""
    return min(
        (os.path.relpath(path, root) for root in roots if path.startswith(root)), key=len, default=path
    )


def forget_bytecode(path: str) -> None:
    """Delete the cached bytecode of a source file.

    It is valid by size and whole seconds: two saves within one second would run the first of them.
    """
    if path.endswith(".py"):
        with suppress(OSError):
            os.unlink(importlib.util.cache_from_source(path))


def shares_terminal() -> bool:
    """Whether Ctrl-C in the terminal reaches this process, and so its child, which is of the same group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
