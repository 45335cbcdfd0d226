"""Lifespan hooks: what an app sets up before it serves and takes down after (api.md 9).

A hook runs as one Task from its setup to its teardown, so that a task group or a cancel scope may stand
around its `yield`.

Invariant: a teardown runs once if its setup came to the `yield`, and never otherwise.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from oxbrook import _leftover

if TYPE_CHECKING:
    from oxbrook._app import App

# How often a hook that runs looks whether its time was cut short, in seconds.
GRACE_STEP: Final = 0.05

Values = Mapping[str, Any] | None
Hook = Callable[..., AbstractAsyncContextManager[Values] | AsyncIterator[Values]]


class Lifespan:
    """One run of a hook, on one loop."""

    def __init__(self, hook: Hook, app: App) -> None:
        self._hook = hook
        self._app = app
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._values: dict[str, Any] | None = None

    async def begin(self, on_end: Callable[[], object] = lambda: None) -> dict[str, Any]:
        """Set up, and return what the hook yields; `on_end` is called should it end before `end` is.

        Raises: what the hook raises; TypeError for a hook or a value of the wrong kind.
        """
        is_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(is_up), name="oxbrook lifespan")
        await asyncio.wait([is_up, self._task], return_when=asyncio.FIRST_COMPLETED)
        if not is_up.done():
            is_up.cancel()
            task, self._task = self._task, None
            task.result()
            raise RuntimeError("a lifespan has to yield once: it did not")
        self._task.add_done_callback(lambda _: None if self._ending.is_set() else on_end())
        assert self._values is not None
        return self._values

    def end(self) -> asyncio.Task[None] | None:
        """Have the teardown run, and return the Task that does; its exception is that of the teardown.

        A setup that still runs is cancelled.
        """
        self._ending.set()
        if self._task is not None and self._values is None:
            self._task.cancel()
        return self._task

    @property
    def is_set_up(self) -> bool:
        """Whether the setup came to its `yield`."""
        return self._values is not None

    async def _run(self, is_up: asyncio.Future[None]) -> None:
        async with managed(self._hook, self._app) as yielded:
            if yielded is not None and not isinstance(yielded, Mapping):
                raise TypeError(f"a lifespan yields a mapping or nothing, not {type(yielded).__name__}")
            self._values = dict(yielded or {})
            is_up.set_result(None)
            await self._ending.wait()


def failure(task: asyncio.Task[None]) -> BaseException | None:
    """Return what ended a Task that is done, a CancelledError too; None if it ended well."""
    try:
        return task.exception()
    except asyncio.CancelledError as error:
        return error


def managed(hook: Hook, app: App) -> AbstractAsyncContextManager[Values]:
    """Call a hook, and return the context manager it gives.

    Raises: TypeError if it gives none.
    """
    factory: Callable[..., Any] = asynccontextmanager(hook) if inspect.isasyncgenfunction(hook) else hook
    manager = factory(app)
    if not isinstance(manager, AbstractAsyncContextManager):
        if inspect.iscoroutine(manager):
            manager.close()
        name = type(manager).__name__
        raise TypeError(
            f"a lifespan is an async generator function or gives an async context manager, not {name}"
        )
    return manager


def joined(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Join what both hooks yielded.

    Raises: ValueError for a key that both have.
    """
    twice = sorted(set(ours) & set(theirs))
    if twice:
        raise ValueError(f"lifespan and worker_lifespan both yield {', '.join(map(repr, twice))}")
    return {**ours, **theirs}


class ProcessLifespan:
    """The hook of the process, on a loop of its own that runs only while the hook does."""

    def __init__(self, hook: Hook, app: App) -> None:
        self._lifespan = Lifespan(hook, app)
        self._loop = asyncio.new_event_loop()

    def begin(self, is_over: Callable[[], bool]) -> dict[str, Any] | None:
        """Set up; return what the hook yields, None if `is_over` came first.

        Raises: what `Lifespan.begin` does.
        """
        beginning = self._loop.create_task(self._lifespan.begin())
        self._run(beginning, is_over)
        return beginning.result() if beginning.done() else None

    def end(self, is_over: Callable[[], bool]) -> bool:
        """Have the teardown run until `is_over`, close the loop, and return whether all of it ended.

        Raises: what the teardown raises.
        """
        ending = self._lifespan.end()
        is_whole = True
        try:
            if ending is not None:
                self._run(ending, is_over)
                is_whole = ending.done()
                # A setup that was cut short is cancelled from here; a teardown never is.
                error = failure(ending) if ending.done() else None
                is_from_here = isinstance(error, asyncio.CancelledError) and not self._lifespan.is_set_up
                if error is not None and not is_from_here:
                    raise error
        finally:
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=0))
            left = {task for task in left if not task.done()}
            _leftover.leave_tasks(left)
            if not left:
                self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
        return is_whole

    def _run(self, task: asyncio.Task[Any], is_over: Callable[[], bool]) -> None:
        while not task.done() and not is_over():
            self._loop.run_until_complete(asyncio.wait([task], timeout=GRACE_STEP))
