"""Worker loops: one thread, one asyncio loop and one worker of the engine each.

Invariant: a loop's thread is no daemon and is joined by the server; what its worker owes is settled on it
before it ends, also when the loop itself failed.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from oxbrook import _core

if TYPE_CHECKING:
    from oxbrook._core import Worker

NO_SIGNALS = "worker loops do not run on the main thread: handle signals in the program's main thread"


class StockLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, which refuses signal handlers in words that help."""

    def add_signal_handler(self, *_args: object) -> NoReturn:
        raise RuntimeError(NO_SIGNALS)


def uvloop_loop() -> asyncio.AbstractEventLoop:
    """Make a loop of uvloop that refuses signal handlers as `StockLoop` does."""
    import uvloop

    class UvLoop(uvloop.Loop):
        def add_signal_handler(self, *_args: object) -> NoReturn:
            raise RuntimeError(NO_SIGNALS)

    return UvLoop()


def can_poll() -> bool:
    """Whether the stock loop here has all that a selector of ours relies on."""
    if sys.platform != "linux" or not hasattr(_core, "Poll"):
        return False
    import selectors

    if not hasattr(selectors, "EpollSelector"):
        return False
    with selectors.EpollSelector() as selector:
        return isinstance(getattr(selector, "_fd_to_key", None), dict)


class WorkerLoop:
    """The thread of one worker."""

    def __init__(self, worker: Worker, index: int, loop_name: str, on_end: Callable[[], object]) -> None:
        self.worker = worker
        self.loop_name = loop_name
        self.error: BaseException | None = None
        self.is_up = threading.Event()
        self._on_end = on_end
        self._is_polled = False
        self._poll: Any = None
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._grace = 0.0
        self._is_asked_to_stop = False
        self._is_over = False
        self.thread = threading.Thread(target=self._run, name=f"oxbrook-worker-{index}")

    def start(self) -> None:
        """Start the thread and return once the worker takes requests.

        Raises: what stopped it from starting.
        """
        self.thread.start()
        self.is_up.wait()
        if self.error is not None:
            raise self.error

    def stop(self, grace: float) -> None:
        """Cancel what runs and end; handlers have `grace` seconds for their `finally`. From any thread."""
        self._grace = grace
        self._is_asked_to_stop = True
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            try:
                loop.call_soon_threadsafe(stopping.set)
            except RuntimeError:  # it has ended meanwhile
                return

    def _make_loop(self) -> asyncio.AbstractEventLoop:
        if self.loop_name == "uvloop":
            return uvloop_loop()
        if not can_poll():
            return StockLoop()
        from oxbrook._selector import WorkerSelector

        selector = WorkerSelector(self.worker)
        loop = StockLoop(selector)
        if all(hasattr(loop, name) for name in ("_ready", "_scheduled", "_stopping")):
            self._is_polled = True
            self._poll = selector.poll
        return loop

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._make_loop) as runner:
                try:
                    runner.run(self._main())
                finally:
                    self._is_over = True
                    self._settle()
        except BaseException as error:
            if not self.is_up.is_set():
                self.error = error
            elif self._is_asked_to_stop:
                raise
            else:
                # The app ended it: `loop.stop()`, or a SystemExit out of a task or a callback. Whoever runs
                # the server has to learn of it: it is no ordinary stop.
                self.error = RuntimeError(f"{self.thread.name} ended while it served: {error!r}")
                self.error.__cause__ = error
        finally:
            self.is_up.set()
            self._on_end()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self.worker.start(self._loop, self._is_polled)
        if self._poll is not None:
            self._poll.watch()
        self.is_up.set()
        while not self._stopping.is_set():
            try:
                await self._stopping.wait()
            except asyncio.CancelledError:
                if self._is_over:
                    raise
                # An app that cancels every task of its loop does not mean this one.
                task = asyncio.current_task()
                if task is not None:
                    task.uncancel()
        cancelled = self.worker.stop(self._is_polled)
        if cancelled:
            await asyncio.wait(cancelled, timeout=self._grace)

    def _settle(self) -> None:
        """Answer for what never ended; the worker may not have been started."""
        try:
            self.worker.close()
        except RuntimeError:
            if self.is_up.is_set():
                raise
