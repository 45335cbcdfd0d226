"""Threads that a stop left behind: an interpreter that ends does not wait for them.

A thread that runs a handler which never returns cannot be ended. Python would wait for it (or, for a daemon, unwind
it while it holds frames of Rust), so the process is ended around it: exit functions run, what was printed is
flushed, the status is the one it would have had.

Invariant: nothing here happens in a process whose servers left nothing behind.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress

_left: list[threading.Thread] = []


def leave(threads: Iterable[threading.Thread]) -> None:
    """Do not wait for these when the interpreter ends."""
    alive = [thread for thread in threads if thread.is_alive()]
    # The public hook comes after the wait for threads, which is too late.
    register = getattr(threading, "_register_atexit", None)
    if alive and not _left and register is not None:
        register(_end_process)
    _left.extend(alive)


def _end_process() -> None:
    if not any(thread.is_alive() for thread in _left):
        return
    run_exit_functions = getattr(atexit, "_run_exitfuncs", None)
    if run_exit_functions is not None:
        run_exit_functions()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    # Set where the program ended with an exception that was shown.
    os._exit(1 if getattr(sys, "last_value", None) is not None else 0)
