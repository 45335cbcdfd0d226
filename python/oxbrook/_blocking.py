"""The pool of threads that run blocking handlers (api.md 2.3), one of a server.

Invariant: no thread exists before the first call, never more than `threads` do, and calls beyond that queue
in order; every call that was taken is either run or dropped.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Call = Callable[[], object]


def default_threads() -> int:
    """Return the size of a pool whose size is not given."""
    return min(32, (os.cpu_count() or 1) + 4)


class AppPool:
    """The place of an app's pool: `pool` is that of its server, None before there was one."""

    def __init__(self) -> None:
        self.pool: Pool | None = None


class Pool:
    """A bounded pool of daemon threads named `oxbrook-blocking-N`; any thread may use it.

    They are daemons because a blocking handler cannot be cancelled: one that never returns must not keep the
    process from ending.
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = default_threads() if threads is None else threads
        self._queue: SimpleQueue[Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._running: list[threading.Thread] = []
        self._unfinished = 0
        self._is_closed = False

    @property
    def started(self) -> bool:
        """Whether a thread exists."""
        return bool(self._running)

    def submit(self, call: Call) -> None:
        """Have a thread make the call, which must not raise.

        If the pool closes first and the call has a method `drop`, that is called instead.

        Raises: RuntimeError after `close`.
        """
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the blocking pool is closed")
            self._unfinished += 1
            # More calls than threads: every thread has one, or is about to take it.
            if self._unfinished > len(self._running) and len(self._running) < self.threads:
                name = f"oxbrook-blocking-{len(self._running)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._running.append(thread)
                thread.start()
            self._queue.put(call)

    async def run(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """Return what `fn(*args)` returns, called by a thread of the pool in the caller's context.

        Cancelled, it raises once the call has ended, which nothing can cut short: what the caller takes down
        then is no longer in use. A call that has not begun never runs. Cancelled again, it waits no longer.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        ended: asyncio.Future[None] = loop.create_future()
        context = contextvars.copy_context()
        # Whoever takes it first decides whether the call is made.
        claim = threading.Lock()

        def settle(result: T | None, error: BaseException | None) -> None:
            if not ended.done():
                ended.set_result(None)
            if future.done():  # cancelled meanwhile; the call could not be
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        def call() -> None:
            if not claim.acquire(blocking=False):
                return
            result: T | None = None
            error: BaseException | None = None
            try:
                result = context.run(fn, *args)
            except StopIteration as raised:
                error = RuntimeError(f"{fn!r} raised {raised!r}")  # a future cannot hold it
            except BaseException as raised:
                error = raised
            with suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(settle, result, error)

        self.submit(call)
        try:
            return await future
        except asyncio.CancelledError:
            if future.cancelled() and not claim.acquire(blocking=False):
                await ended
            raise

    def close(self, timeout: float | None = None) -> list[threading.Thread]:
        """Take no more calls, drop those not begun, and wait up to `timeout` seconds for the others.

        Returns: the threads that still run.
        """
        with self._lock:
            self._is_closed = True
        while True:
            try:
                waiting = self._queue.get_nowait()
            except Empty:
                break
            drop = getattr(waiting, "drop", None)
            if drop is not None:
                drop()
        for _ in self._running:
            self._queue.put(None)
        end = None if timeout is None else time.monotonic() + timeout
        for thread in self._running:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
        return [thread for thread in self._running if thread.is_alive()]

    def _work(self) -> None:
        while (call := self._queue.get()) is not None:
            try:
                call()
            finally:
                # What it held must not live until the next call.
                del call
                with self._lock:
                    self._unfinished -= 1
