"""The access log: a thread that writes what the engine says of each request (api.md 16.6).

The engine makes a record when a response ends and never waits for its line. Records that find no room,
because lines are written slower than requests come, are counted, and the count is logged.

Invariant: what was recorded before the engine closed is written before `serve` returns, unless a handler of
the logger hangs.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Final

from oxbrook._core import AccessLog

LOGGER: Final = logging.getLogger("oxbrook.access")
# Records that may wait, about 100 bytes each.
CAPACITY: Final = 65_536
# Lines between two moments in which other threads get the GIL.
BATCH: Final = 32


class AccessWriter:
    """The thread that writes the lines of one server."""

    def __init__(self) -> None:
        self.log = AccessLog(CAPACITY)
        self._is_shown = False
        self.thread = threading.Thread(target=self._run, name="oxbrook-access-log")

    def start(self) -> None:
        """Write lines from now on."""
        self.thread.start()

    def end(self, limit: float) -> None:
        """Write what waits, and end the thread; at most `limit` seconds."""
        self.log.close()
        if self.thread.is_alive():
            self.thread.join(limit)

    def _run(self) -> None:
        while (taken := self.log.take(BATCH)) is not None:
            records, lost = taken
            for record in records:
                self._try(write, *record)
            if lost:
                self._try(LOGGER.warning, "%d lines were lost: written slower than requests come", lost)

    def _try(self, log: Callable[..., None], *arguments: object) -> None:
        """Log; a handler that raises costs its own line alone, and is shown the first time."""
        try:
            log(*arguments)
        except Exception:
            if not self._is_shown:
                self._is_shown = True
                print("oxbrook: a logging handler of oxbrook.access raised", file=sys.stderr)
                traceback.print_exc()


def write(method: str, path: str, status: int, duration_ms: float, is_failure: bool) -> None:
    """Log one request; `is_failure` where an exception that nobody handled is behind its status."""
    level = logging.WARNING if is_failure else logging.INFO
    if LOGGER.isEnabledFor(level):
        extra = {"method": method, "path": path, "status": status, "duration_ms": duration_ms}
        LOGGER.log(level, "%s %s %d", method, path, status, extra=extra)
