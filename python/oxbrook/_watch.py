"""What changed among the watched files of `--reload`.

A scan of modification times is the truth; `watchfiles`, where it is installed, only says when to scan, so
that an idle supervisor sleeps. Without it a scan runs every 0.4 s.

Invariant: no scan and no watch enters a directory of `never_entered`, however large it is.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from importlib.util import find_spec
from typing import Final

NEVER_ENTERED: Final = frozenset(
    ("__pycache__", "node_modules", "target", "target-cov", "site", "dist", "build", "htmlcov", "venv", "env")
)
POLL_INTERVAL: Final = 0.4
# A scan may take this share of a core: where one takes longer than 6 ms, the interval grows with it.
SCAN_SHARE: Final = 0.015
# How long the watching thread waits before it first says that its watch stands.
FIRST_WAKE_MS: Final = 200

Stamp = tuple[int, int, int]
Snapshot = dict[str, Stamp]


def never_entered(name: str) -> bool:
    """Whether a directory of this name is left out, with all below it."""
    return name.startswith(".") or name in NEVER_ENTERED


class Files:
    """The watched files and when each last changed; not thread-safe.

    `patterns` are matched against a file's name and against its path below the directory.
    """

    def __init__(self, directories: Iterable[str], patterns: Iterable[str]) -> None:
        self.roots = tuple(directories)
        self.patterns = tuple(patterns)
        self.directories: frozenset[str] = frozenset()
        self.scan_time = 0.0
        self.snapshot: Snapshot = {}
        self.snapshot = self.scan()

    def changed(self) -> set[str]:
        """Return the paths that came, went or changed since the last call."""
        before, self.snapshot = self.snapshot, self.scan()
        return {path for path, _ in before.items() ^ self.snapshot.items()}

    def scan(self) -> Snapshot:
        """Walk the directories; a directory or file that vanishes on the way is simply not there."""
        started = time.thread_time()
        found: Snapshot = {}
        entered = set()
        waiting = [(root, "") for root in self.roots]
        while waiting:
            directory, below = waiting.pop()
            if directory in entered:
                continue
            entered.add(directory)
            try:
                with os.scandir(directory) as entries:
                    for entry in entries:
                        self.look(entry, below, found, waiting)
            except OSError:
                continue
        self.directories = frozenset(entered)
        self.scan_time = time.thread_time() - started
        return found

    def look(
        self, entry: os.DirEntry[str], below: str, found: Snapshot, waiting: list[tuple[str, str]]
    ) -> None:
        """Take up one directory entry."""
        try:
            # Links to directories are not followed: they may lead into what is left out, or in a circle.
            if entry.is_dir(follow_symlinks=False):
                if not never_entered(entry.name):
                    waiting.append((entry.path, f"{below}{entry.name}/"))
            elif self.is_watched(entry.name, below):
                status = entry.stat()
                found[entry.path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            return

    def is_watched(self, name: str, below: str) -> bool:
        """Whether a file counts."""
        if name.endswith(".py"):
            return True
        return any(fnmatch(name, pattern) or fnmatch(below + name, pattern) for pattern in self.patterns)

    @property
    def poll_interval(self) -> float:
        """Seconds between two scans that keep an idle supervisor within its share of a core."""
        return max(POLL_INTERVAL, self.scan_time / SCAN_SHARE)


class Notifier:
    """A thread that calls `poke` whenever something in one of the directories changes, by `watchfiles`.

    `poke` runs on that thread, and may be called for changes that mean nothing. `is_broken` after the watch
    ended by itself: a directory vanished while it was set up, or the system has no more watches to give.
    """

    def __init__(self, directories: frozenset[str], poke: Callable[[], None]) -> None:
        self.directories = directories
        self.poke = poke
        self.is_broken = False
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.watch, name="oxbrook-watch", daemon=True)
        self.thread.start()

    def watch(self) -> None:
        """Wait for events until stopped."""
        try:
            from watchfiles import watch

            # Not recursive: the directories are listed one by one, so what is left out is never watched.
            is_first = True
            for changes in watch(
                *sorted(self.directories),
                watch_filter=None,
                debounce=50,
                step=50,
                stop_event=self.stopping,
                rust_timeout=FIRST_WAKE_MS,
                yield_on_timeout=True,
                raise_interrupt=False,
                recursive=False,
                ignore_permission_denied=True,
            ):
                # The first return says that the watch stands: a scan finds what changed before it did.
                if changes or is_first:
                    self.poke()
                is_first = False
        except (OSError, ImportError):
            self.is_broken = True
            self.poke()

    def stop(self) -> None:
        """Ask the thread to end; it is not waited for, since nothing it does can hurt."""
        self.stopping.set()


def has_notifier() -> bool:
    """Whether `watchfiles` is importable."""
    return find_spec("watchfiles") is not None
