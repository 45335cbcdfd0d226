"""What a stop left behind: threads that never end, and tasks that will not be cancelled.

Python would wait for such a thread when the interpreter ends (or, for a daemon, unwind it while it holds
frames of Rust), and closing the coroutine of such a task runs it once more, without a loop, perhaps for ever.
So neither is touched again, and the process is ended around them: exit functions run, what was printed is
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
from typing import Final

# How long the exit functions may take where one of them may wait for a thread that was left, in seconds.
EXIT_GRACE: Final = 5.0

_threads: list[threading.Thread] = []
_writers: list[threading.Thread] = []
_tasks: list[object] = []


def leave_threads(threads: Iterable[threading.Thread]) -> None:
    """Do not wait for these when the interpreter ends."""
    alive = [thread for thread in threads if thread.is_alive()]
    if alive:
        _register()
        _threads.extend(alive)


def leave_writer(thread: threading.Thread) -> None:
    """Do not wait for this one either: it hangs in a logging handler, whose lock an exit function wants."""
    if thread.is_alive():
        leave_threads([thread])
        _writers.append(thread)


def leave_tasks(tasks: Iterable[object]) -> None:
    """Keep these for ever: what is never collected is never run again."""
    kept = list(tasks)
    if kept:
        _register()
        _tasks.extend(kept)


def _register() -> None:
    # The public hook comes after the wait for threads, which is too late.
    register = getattr(threading, "_register_atexit", None)
    if register is not None and not _threads and not _tasks:
        register(_end_process)


def _end_process() -> None:
    if not _tasks and not any(thread.is_alive() for thread in _threads):
        return
    if any(thread.is_alive() for thread in _writers):
        last = threading.Thread(target=_finish, daemon=True)
        last.start()
        last.join(EXIT_GRACE)
    else:
        _finish()
    # Set where the program ended with an exception that was shown.
    os._exit(1 if getattr(sys, "last_value", None) is not None else 0)


def _finish() -> None:
    """Run the exit functions, and write out what was printed."""
    run_exit_functions = getattr(atexit, "_run_exitfuncs", None)
    if run_exit_functions is not None:
        run_exit_functions()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
