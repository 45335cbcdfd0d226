"""`Router`: routes under a prefix, with middleware of their own, to be included in an app or another router.

Invariant: what was included is never changed after, so an app holds all that a router had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeVar

from oxbrook._blocking import AppPool
from oxbrook._compose import Middleware, check_async
from oxbrook._decorators import Decorators
from oxbrook._routing import Declaration, HandlerT, Route, RouteOptions, RouteTable

MiddlewareT = TypeVar("MiddlewareT", bound=Middleware)


class Router(Decorators):
    """A group of routes (api.md 8.2); `prefix` is joined literally before each path.

    Raises: ValueError for a prefix that does not start with `/` or ends with one.
    """

    def __init__(self, prefix: str = "") -> None:
        check_prefix(prefix)
        self.prefix = prefix
        self._entries: list[Declaration | tuple[Router, str]] = []
        self._middleware: list[Middleware] = []
        # Where conflicts within this router are found; its pool is never used.
        self._table = RouteTable(AppPool(), prefix)
        self._is_included = False

    def _declare(
        self, method: str, path: str, options: RouteOptions, place: FrameType
    ) -> Callable[[HandlerT], HandlerT]:
        self._check_open()
        return self._table.decorator(method, path, options, place, self._entries.append)

    def middleware(self, fn: MiddlewareT) -> MiddlewareT:
        """Run `async def fn(request, call_next)` around the handlers of this router and of those it includes.

        Raises: TypeError if it is not an async function; RuntimeError once this router was included.
        """
        self._check_open()
        check_async(fn, "middleware")
        self._middleware.append(fn)
        return fn

    def include(self, router: Router, prefix: str = "") -> None:
        """Add the routes of another router, its prefix behind this one's and `prefix`.

        Raises: TypeError for what is no `Router`; ValueError for a bad prefix, a conflict, or a router that
            would include itself; RuntimeError once this router was included.
        """
        self._check_open()
        check_router(router)
        if self in router._all():
            raise ValueError("a router cannot include itself, directly or through others")
        for route in flattened(router, self.prefix + check_prefix(prefix), AppPool()):
            self._table.add(route)
        self._entries.append((router, prefix))

    def _check_open(self) -> None:
        if self._is_included:
            raise RuntimeError("this router has already been included: add to it before that")

    def _all(self) -> list[Router]:
        """Return this router and all it includes."""
        found = [self]
        for entry in self._entries:
            if not isinstance(entry, Declaration):
                found.extend(entry[0]._all())
        return found

    def _routes(self, prefix: str, pool: AppPool, middleware: tuple[Middleware, ...]) -> Iterator[Route]:
        prefix += self.prefix
        middleware = (*middleware, *self._middleware)
        for entry in self._entries:
            if isinstance(entry, Declaration):
                yield entry.bind(prefix, pool, middleware)
            else:
                inner, between = entry
                yield from inner._routes(prefix + between, pool, middleware)


def flattened(router: Router, prefix: str, pool: AppPool) -> list[Route]:
    """Return the routes of a router under a prefix, each checked again; the router takes no more from now on.

    Raises: TypeError or ValueError.
    """
    check_router(router)
    check_prefix(prefix)
    routes = list(router._routes(prefix, pool, ()))
    for each in router._all():
        each._is_included = True
    return routes


def check_router(router: object) -> None:
    """Refuse what is no `Router`."""
    if not isinstance(router, Router):
        raise TypeError(f"include takes a Router, not {type(router).__name__}")


def check_prefix(prefix: str) -> str:
    """Return a prefix that can stand before a path.

    Raises: TypeError or ValueError.
    """
    if not isinstance(prefix, str):
        raise TypeError(f"prefix must be a str, not {type(prefix).__name__}")
    if prefix and (not prefix.startswith("/") or prefix.endswith("/")):
        raise ValueError(f"prefix must start with '/' and not end with one: {prefix!r}")
    return prefix
