"""Work for after the response: what `request.after_response` was given (api.md 16.10).

Invariant: in the order it was given, one by one, and a failure stops nothing but itself. What cuts it short
is the end of the loop alone: no client and no timeout reaches it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from oxbrook._blocking import Pool
    from oxbrook._core import Request

LOGGER: Final = logging.getLogger("oxbrook.after")


def after_runner(pool: Pool) -> Callable[[Request], Coroutine[Any, Any, None]]:
    """Return the coroutine function that does what a request left to do; plain functions run on the pool."""

    async def run_after(request: Request) -> None:
        while (work := request._next_work()) is not None:
            fn, args, kwargs = work
            try:
                if iscoroutinefunction(fn) or iscoroutinefunction(type(fn).__call__):
                    await fn(*args, **kwargs)
                else:
                    await pool.run(call, fn, args, kwargs)
            except BaseException as error:
                task = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                    raise  # the loop ends
                report(fn, request, error)

    return run_after


def call(fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Call a plain function.

    Raises: what it raises; TypeError where it returned something to await, which nobody would.
    """
    result = fn(*args, **kwargs)
    if isawaitable(result):
        close = getattr(result, "close", None)
        if close is not None:
            close()
        raise TypeError(f"a plain function returned an awaitable: {type(result).__name__}")


def report(fn: object, request: Request, error: BaseException) -> None:
    """Log a failure."""
    name = getattr(fn, "__qualname__", None) or repr(fn)
    extra = {"method": request.method, "path": request.path}
    text = "%s %s: %s failed after the response"
    LOGGER.error(text, request.method, request.path, name, exc_info=error, extra=extra)
