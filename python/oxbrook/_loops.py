"""Worker loops: one thread, one asyncio loop and one worker of the engine each.

Invariant: a loop's thread is no daemon and is joined by the server; what its worker owes is settled on it
before it ends, also when the loop itself failed. Nothing of the app can make its end wait beyond the time it
was given: a task that swallows its cancellation and a thread of `asyncio.to_thread` are left behind.
"""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NoReturn

from oxbrook import _core, _leftover

if TYPE_CHECKING:
    from oxbrook._core import Worker

# How often a loop that ends looks whether its time was cut short, in seconds.
GRACE_STEP: Final = 0.05
NO_SIGNALS: Final = "worker loops do not run on the main thread: handle signals in the program's main thread"


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
        # Something of the app still ran when the time was over.
        self.is_late = False
        self._on_end = on_end
        self._is_polled = False
        self._poll: Any = None
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ends = math.inf
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

    def stop(self, ends: float) -> None:
        """Cancel what runs and end by `ends`, on the monotonic clock; a second call gives another time.

        Any thread may call it. Handlers and tasks have until then for their `finally`.
        """
        self._ends = ends
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
            loop = self._make_loop()
            try:
                self._serve(loop)
            finally:
                loop.close()
        except BaseException as error:
            self._note(error)
        finally:
            self.is_up.set()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        helpers: list[threading.Thread] = []
        # As the one asyncio makes at the first `to_thread`, but with threads that are known.
        executor = ThreadPoolExecutor(
            thread_name_prefix=f"{self.thread.name}-executor",
            initializer=lambda: helpers.append(threading.current_thread()),
        )
        loop.set_default_executor(executor)
        try:
            loop.run_until_complete(self._main())
        except BaseException as error:
            self._note(error)
        finally:
            self._is_over = True
            # Where the app ended it, the server has to stop, and gives the time for what follows.
            self._on_end()
            try:
                loop.run_until_complete(self._tear_down())
            finally:
                self._settle()
                executor.shutdown(wait=False, cancel_futures=True)
                self._join(helpers)

    def _note(self, error: BaseException) -> None:
        """Keep what the server has to raise."""
        if not self.is_up.is_set():
            self.error = error
        elif self._is_asked_to_stop:
            raise error
        else:
            # The app ended it: `loop.stop()`, or a SystemExit out of a task or a callback. Whoever runs
            # the server has to learn of it: it is no ordinary stop.
            self.error = RuntimeError(f"{self.thread.name} ended while it served: {error!r}")
            self.error.__cause__ = error

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

    async def _tear_down(self) -> None:
        """Cancel every task there is, handlers included; they and open generators have what time is left."""
        if self.is_up.is_set():
            self.worker.stop(self._is_polled)
        loop = asyncio.get_running_loop()
        cancelled = {asyncio.current_task()}
        # Once more for tasks that were made meanwhile, by a `finally` for example.
        while tasks := asyncio.all_tasks() - cancelled:
            for task in tasks:
                task.cancel()
            cancelled |= tasks
            await self._wait(tasks)
        await self._wait([loop.create_task(loop.shutdown_asyncgens())])
        left = asyncio.all_tasks() - {asyncio.current_task()}
        self.is_late |= bool(left)
        _leftover.leave_tasks(left)

    async def _wait(self, tasks: Collection[asyncio.Task[Any]]) -> None:
        """Wait until these are done or the time is over, which the server may cut short."""
        pending = set(tasks)
        while pending:
            left = self._ends - time.monotonic()
            # Also without time: one turn, in which each meets its cancellation.
            _, pending = await asyncio.wait(pending, timeout=max(0.0, min(GRACE_STEP, left)))
            if left <= 0.0:
                break
        for task in tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                error = task.exception()
                context = {"message": "a task failed while its loop was stopped", "exception": error}
                asyncio.get_running_loop().call_exception_handler({**context, "task": task})

    def _join(self, helpers: list[threading.Thread]) -> None:
        """Wait for calls of `asyncio.to_thread`; those that outlast the time are left behind."""
        for helper in helpers:
            while helper.is_alive() and (left := self._ends - time.monotonic()) > 0.0:
                helper.join(min(GRACE_STEP, left))
        self.is_late |= any(helper.is_alive() for helper in helpers)
        _leftover.leave_threads(helpers)

    def _settle(self) -> None:
        """Answer for what never ended; the worker may not have been started."""
        try:
            self.worker.close()
        except RuntimeError:
            if self.is_up.is_set():
                raise
