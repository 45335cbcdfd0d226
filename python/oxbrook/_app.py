"""`App`: what a program declares, and the two ways to serve it.

Invariant: two apps of one process share nothing; a decorator registers on the app it is called on.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from oxbrook._blocking import AppPool
from oxbrook._compose import ExceptionHandler, Middleware, check_async
from oxbrook._cors import CORS
from oxbrook._decorators import Decorators
from oxbrook._health import Health, Place, ready_route
from oxbrook._lifespan import Hook
from oxbrook._options import MAX_MESSAGE, ServerOptions
from oxbrook._router import Router, flattened
from oxbrook._routing import HandlerT, Route, RouteOptions, RouteTable, built_in, check_target
from oxbrook._state import State
from oxbrook._static import Mount, mount

if TYPE_CHECKING:
    from oxbrook._server import ServerHandle

Path = str | os.PathLike[str]
MiddlewareT = TypeVar("MiddlewareT", bound=Middleware)
ExceptionHandlerT = TypeVar("ExceptionHandlerT", bound=ExceptionHandler)


class App(Decorators):
    """An application: routes, and the options they share (api.md 1.1).

    `openapi_url` is the path of the OpenAPI document, `docs_url` that of the page that shows it; None for
    none, and without a document there is no page. `mcp_url` accepts None alone until what is behind it is
    built.
    `debug=True` lets the text of an exception reach a client. `access_log=True` logs a line for every
    request. `lifespan(app)` runs once around serving, `worker_lifespan(app)` on every loop; each is an async
    generator function or gives an async context manager, and yields a mapping, or nothing, that
    `request.state` shows.
    """

    def __init__(
        self,
        title: str = "Oxbrook",
        version: str = "0.1.0",
        description: str = "",
        openapi_url: str | None = "/openapi.json",
        docs_url: str | None = "/docs",
        mcp_url: None = None,
        debug: bool = False,
        access_log: bool = False,
        lifespan: Hook | None = None,
        worker_lifespan: Hook | None = None,
        cors: CORS | None = None,
        health: Health | None = None,
    ) -> None:
        if mcp_url is not None:
            raise ValueError("mcp_url is not built yet: only None is accepted")
        for name, url in (("openapi_url", openapi_url), ("docs_url", docs_url)):
            if url is not None and check_target("GET", url)[0]:
                raise ValueError(f"{name} cannot hold placeholders: {url!r}")
        for name, hook in (("lifespan", lifespan), ("worker_lifespan", worker_lifespan)):
            if hook is not None and not callable(hook):
                raise TypeError(f"{name} must be callable, not {type(hook).__name__}")
        if cors is not None and not isinstance(cors, CORS):
            raise TypeError(f"cors must be a CORS, not {type(cors).__name__}")
        if health is not None and not isinstance(health, Health):
            raise TypeError(f"health must be a Health, not {type(health).__name__}")
        self.title = title
        self.version = version
        self.description = description
        self.openapi_url = openapi_url
        self.docs_url = docs_url
        self.mcp_url = mcp_url
        self.debug = debug
        self.access_log = access_log
        self.lifespan = lifespan
        self.worker_lifespan = worker_lifespan
        self.cors = cors
        self.health = health
        self.state = State({})
        self.workers: int | None = None
        self.mounts: list[Mount] = []
        self._pool = AppPool()
        self._table = RouteTable(self._pool)
        self._middleware: list[Middleware] = []
        self._handlers: dict[type[Exception], ExceptionHandler] = {}

    @property
    def routes(self) -> list[Route]:
        """The routes in order of registration; a new list each time."""
        return list(self._table.routes)

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI 3.1 document of what is registered so far."""
        import json

        from oxbrook._core import encode_json
        from oxbrook._openapi import document

        # Plain JSON: a default may be a date, for example.
        plain: dict[str, Any] = json.loads(encode_json(document(self, self.routes)))
        return plain

    def _served(self, has_parts: bool = True, loops: Sequence[Place] = ()) -> list[Route]:
        """Return every route a server has, those the app answers by itself included.

        `has_parts`: also those of what the documentation page is made of, which nobody asks for by hand.
        `loops`: where the checks of the probes run.
        """
        own = self._documents(has_parts)
        if self.health is not None and self.health.checks:
            own.append(ready_route(self.health, loops))
        # What the app has at such a place is its own.
        return [*self.routes, *(route for route in own if not self._table.takes_get(route.shape))]

    def _documents(self, has_parts: bool) -> list[Route]:
        """Return the routes of the OpenAPI document and of the page that shows it."""
        if self.openapi_url is None:
            return []
        from oxbrook._core import encode_json
        from oxbrook._responses import Response

        text = encode_json(self.openapi())

        def openapi() -> Response:
            return Response(text)

        own = [built_in("GET", self.openapi_url, openapi)]
        if self.docs_url is not None:
            from oxbrook._docs_page import docs_routes

            page, *parts = docs_routes(self, self.docs_url, self.openapi_url)
            own += [page, *parts] if has_parts else [page]
        return own

    def per_worker(self, total: int) -> int:
        """Return a loop's share of a total, of the connections of a database for example.

        Raises: RuntimeError before a server is built; ValueError for what is not an int of at least 1, or is
            less than one for each loop.
        """
        if type(total) is not int or total < 1:
            raise ValueError("total must be an int of at least 1")
        if self.workers is None:
            raise RuntimeError(
                "how many loops there are is known once a server is built: ask in worker_lifespan"
            )
        if total < self.workers:
            raise ValueError(f"{total} for {self.workers} loops: each needs at least one")
        return total // self.workers

    def _declare(
        self, method: str, path: str, options: RouteOptions, place: FrameType
    ) -> Callable[[HandlerT], HandlerT]:
        return self._table.decorator(method, path, options, place)

    def include(self, router: Router, prefix: str = "") -> None:
        """Add the routes of a router, its prefix behind this one; nothing can be added to it afterwards.

        Raises: TypeError for what is no `Router`; ValueError for a bad prefix or a route that conflicts.
        """
        for route in flattened(router, prefix, self._pool):
            self._table.add(route)

    def static(
        self,
        prefix: str,
        directory: Path,
        *,
        index: str = "index.html",
        fallback: str | None = None,
        dotfiles: bool = False,
        cache_control: str | None = None,
    ) -> None:
        """Serve the files of a directory under a prefix, without Python (api.md 10.1).

        `index` stands for its directory, `fallback`, a file inside, for pages that are not there, as browser
        apps want it; `dotfiles=True` serves names that begin with a dot; `cache_control` is sent
        with every file.

        Raises: ValueError for a prefix that is neither `/` nor like `/assets`, a directory or fallback that
            is not there, an index that is no plain name, a line break in `cache_control`, or the place of a
            `GET` route.
        """
        frame = sys._getframe(1)
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        made = mount(self._table, prefix, directory, index, fallback, dotfiles, cache_control, place)
        self.mounts.append(made)

    def middleware(self, fn: MiddlewareT) -> MiddlewareT:
        """Run `async def fn(request, call_next)` around every handler; the first one registered is outermost.

        `await call_next(request)` gives a `Reply`. What `fn` returns is answered like a handler's value.

        Raises: TypeError if it is not an async function.
        """
        check_async(fn, "middleware")
        self._middleware.append(fn)
        return fn

    def exception_handler(self, cls: type[Exception]) -> Callable[[ExceptionHandlerT], ExceptionHandlerT]:
        """Answer exceptions of a class with what the decorated `async def fn(request, exc)` returns.

        Raises: TypeError if `cls` is not a subclass of Exception or the function is not async; ValueError for
            a second one of a class.
        """
        if not isinstance(cls, type) or not issubclass(cls, Exception):
            raise TypeError(f"exception_handler takes a subclass of Exception, not {cls!r}")

        def register(fn: ExceptionHandlerT) -> ExceptionHandlerT:
            check_async(fn, "an exception handler")
            if cls in self._handlers:
                raise ValueError(f"{cls.__name__} has an exception handler already")
            self._handlers[cls] = fn
            return fn

        return register

    def run(
        self,
        host: str = "127.0.0.1",
        port: int = 8000,
        workers: int | None = None,
        max_concurrency: int = 1024,
        max_body: int = 16_777_216,
        request_timeout: float = 30.0,
        shutdown_grace: float = 10.0,
        max_connections: int = 2048,
        max_message: int = MAX_MESSAGE,
        blocking_threads: int | None = None,
        *,
        uds: Path | None = None,
        uds_mode: int = 0o660,
        fd: int | None = None,
        backlog: int = 2048,
        io_threads: int | None = None,
        max_buffered: int = 268_435_456,
        queue_timeout: float | None = None,
        header_timeout: float = 15.0,
        keep_alive_timeout: float = 75.0,
        body_timeout: float = 30.0,
        write_timeout: float = 30.0,
        loop: str = "auto",
    ) -> None:
        """Serve until a stop signal; durations in seconds, sizes in bytes (api.md 1.2).

        Raises: ValueError or TypeError for an option; RuntimeError, starting `bind `, where it cannot listen.
        """
        server = self.build_server(
            host,
            port,
            workers,
            max_concurrency,
            max_body,
            request_timeout,
            shutdown_grace,
            max_connections,
            max_message,
            True,
            blocking_threads,
            uds=uds,
            uds_mode=uds_mode,
            fd=fd,
            backlog=backlog,
            io_threads=io_threads,
            max_buffered=max_buffered,
            queue_timeout=queue_timeout,
            header_timeout=header_timeout,
            keep_alive_timeout=keep_alive_timeout,
            body_timeout=body_timeout,
            write_timeout=write_timeout,
            loop=loop,
        )
        with contextlib.suppress(KeyboardInterrupt):
            server.serve()

    def build_server(
        self,
        host: str,
        port: int,
        workers: int | None,
        max_concurrency: int,
        max_body: int,
        request_timeout: float,
        shutdown_grace: float,
        max_connections: int,
        max_message: int,
        announce: bool = False,
        blocking_threads: int | None = None,
        *,
        uds: Path | None = None,
        uds_mode: int = 0o660,
        fd: int | None = None,
        backlog: int = 2048,
        io_threads: int | None = None,
        max_buffered: int = 268_435_456,
        queue_timeout: float | None = None,
        header_timeout: float = 15.0,
        keep_alive_timeout: float = 75.0,
        body_timeout: float = 30.0,
        write_timeout: float = 30.0,
        loop: str = "auto",
    ) -> ServerHandle:
        """Prepare a server and start nothing; `serve()` of the handle does. `announce`: print the banner.

        Raises: ValueError or TypeError for an option, RuntimeError for a loop that is not installed.
        """
        options = ServerOptions(
            host=host,
            port=port,
            workers=workers,
            max_concurrency=max_concurrency,
            max_body=max_body,
            request_timeout=request_timeout,
            shutdown_grace=shutdown_grace,
            max_connections=max_connections,
            max_message=max_message,
            announce=announce,
            blocking_threads=blocking_threads,
            uds=None if uds is None else os.fspath(uds),
            uds_mode=uds_mode,
            fd=fd,
            backlog=backlog,
            io_threads=io_threads,
            max_buffered=max_buffered,
            queue_timeout=queue_timeout,
            header_timeout=header_timeout,
            keep_alive_timeout=keep_alive_timeout,
            body_timeout=body_timeout,
            write_timeout=write_timeout,
            loop=loop,
        )
        from oxbrook._server import ServerHandle

        return ServerHandle(self, options)
