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
import traceback
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NoReturn

from oxbrook import _core, _leftover
from oxbrook._lifespan import Lifespan, failure, joined
from oxbrook._state import State

if TYPE_CHECKING:
    from oxbrook._app import App
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

    def __init__(
        self, app: App, worker: Worker, index: int, loop_name: str, on_end: Callable[[], object]
    ) -> None:
        self.app = app
        self.worker = worker
        self.loop_name = loop_name
        self.error: BaseException | None = None
        self.is_up = threading.Event()
        # Something of the app still ran when the time was over.
        self.is_late = False
        self._on_end = on_end
        self._lifespan: Lifespan | None = None
        # The Task that waits for the hook's setup.
        self._starting: asyncio.Task[Any] | None = None
        self._is_polled = False
        self._poll: Any = None
        self._stopping: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # What its handlers see as `request.state`.
        self.state: State | None = None
        self._ends = math.inf
        self._is_asked_to_stop = False
        self._is_over = False
        # A KeyboardInterrupt or SystemExit of the app while the loop ended.
        self._printed: list[BaseException] = []
        self.thread = threading.Thread(target=self._run, name=f"oxbrook-worker-{index}")

    def start(self, is_stopped: Callable[[], bool] = lambda: False) -> None:
        """Start the thread and return once the worker takes requests, or `is_stopped`.

        Raises: what stopped it from starting.
        """
        self.thread.start()
        # Without a hook it is up at once, and nothing is looked at in vain.
        while not self.is_up.wait(GRACE_STEP):
            if is_stopped():
                return
        if self.error is not None:
            raise self.error

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop, once there is one."""
        return self._loop

    def stop(self, ends: float) -> None:
        """Cancel what runs and end by `ends`, on the monotonic clock; a second call gives another time.

        Any thread may call it. Handlers and tasks have until then for their `finally`.
        """
        self._ends = ends
        self._is_asked_to_stop = True
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._stop_here)
            except RuntimeError:  # it has ended meanwhile
                return

    def _stop_here(self) -> None:
        if self._stopping is not None:
            self._stopping.set()
        if self._starting is not None:
            self._starting.cancel()

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
                self._run_to_end(loop)
            finally:
                self._settle()
                executor.shutdown(wait=False, cancel_futures=True)
                self._join(helpers)

    def _run_to_end(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the teardown; what breaks out of the loop on the way is printed and stops nothing of it."""
        ending = loop.create_task(self._tear_down())
        while not ending.done():
            try:
                loop.run_until_complete(ending)
            except BaseException as error:
                if ending.done():
                    raise
                self._printed.append(error)
                traceback.print_exception(error, file=sys.stderr)

    def _note(self, error: BaseException) -> None:
        """Keep what the server has to raise."""
        if not self.is_up.is_set():
            # A stop cancels a hook that is still setting up.
            if not (self._is_asked_to_stop and isinstance(error, asyncio.CancelledError)):
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
        if self._is_asked_to_stop:
            return
        state = self.app.state
        if self.app.worker_lifespan is not None:
            self._lifespan = Lifespan(self.app.worker_lifespan, self.app)
            self._starting = asyncio.current_task()
            yielded = await self._lifespan.begin(self._stopping.set)
            self._starting = None
            state = State(joined(state, yielded))
        self.state = state
        self.worker.start(self._loop, self._is_polled, state)
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
        if not self._is_asked_to_stop:
            raise RuntimeError("its worker_lifespan ended")

    async def _tear_down(self) -> None:
        """Cancel the handlers, run the hook's teardown, cancel what is left; all have what time is left."""
        loop = asyncio.get_running_loop()
        cancelled: set[asyncio.Task[Any] | None] = {asyncio.current_task()}
        handlers = self.worker.stop(self._is_polled) if self.is_up.is_set() else []
        for task in handlers:
            task.cancel()
        await self._wait(handlers)
        await self._end_lifespan()
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

    async def _end_lifespan(self) -> None:
        ending = None if self._lifespan is None else self._lifespan.end()
        if ending is None:
            return
        await self._wait([ending], is_reported=False)
        # What stopped the start is raised by the server.
        error = failure(ending) if ending.done() and self.is_up.is_set() else None
        if error is not None and error not in self._printed:
            traceback.print_exception(error, file=sys.stderr)

    async def _wait(self, tasks: Collection[asyncio.Task[Any]], is_reported: bool = True) -> None:
        """Wait until these are done or the time is over, which the server may cut short."""
        pending = set(tasks)
        while pending:
            left = self._ends - time.monotonic()
            # Also without time: one turn, in which each meets its cancellation.
            _, pending = await asyncio.wait(pending, timeout=max(0.0, min(GRACE_STEP, left)))
            if left <= 0.0:
                break
        for task in tasks if is_reported else ():
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
