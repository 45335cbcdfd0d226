"""Registration of a route: its options, the kind of its handler, and the record `App.routes` shows.

Invariant: whatever is wrong with a route is raised here, when its decorator runs, and names the decorator's
place; a request never meets a mistake of registration.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final, Literal, TypeVar

from oxbrook import _core
from oxbrook._annotations import is_model
from oxbrook._binding import Binding, Parameter, bind
from oxbrook._blocking import AppPool
from oxbrook._compose import Middleware
from oxbrook._options import check_int

Handler = Callable[..., object]
HandlerT = TypeVar("HandlerT", bound=Handler)
Kind = Literal["async", "blocking", "inline"]

METHOD: Final = re.compile(r"[A-Z0-9!#$%&'*+.^_`|~-]+")  # a token, RFC 9110 section 9.1


@dataclass(frozen=True)
class RouteOptions:
    """The keyword options of a decorator, api.md 2.2; `max_body` in bytes."""

    cancel_on_disconnect: bool
    blocking: bool
    inline: bool
    status: int
    max_body: int | None
    responses: Mapping[int, Any] | None = None
    tags: Sequence[str] = ()
    summary: str | None = None
    deprecated: bool = False
    include_in_schema: bool = True

    def check(self) -> None:
        """Raise ValueError for a value out of its range, TypeError for one of another type."""
        if isinstance(self.tags, str) or not all(isinstance(tag, str) for tag in self.tags):
            raise TypeError("tags must be a sequence of str, not one str")
        check_responses(self.responses)
        status = self.status
        if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 399:
            raise ValueError("status must be an int from 200 to 399")
        if self.max_body is not None:
            check_int("max_body", self.max_body)


@dataclass(frozen=True)
class Route:
    """One registered route, as `App.routes` lists it; `pool.pool` is the thread pool of a blocking one."""

    method: str
    path: str
    fn: Handler
    params: tuple[Parameter, ...]
    blocking: bool
    inline: bool
    cancel_on_disconnect: bool
    status: int
    max_body: int | None
    pool: AppPool | None = field(repr=False)
    shape: str = field(repr=False)
    place: str = field(repr=False)
    binding: Binding = field(repr=False)
    responses: Mapping[int, Any] | None = field(default=None, repr=False)
    tags: Sequence[str] = field(default=(), repr=False)
    summary: str | None = field(default=None, repr=False)
    deprecated: bool = field(default=False, repr=False)
    include_in_schema: bool = field(default=True, repr=False)
    is_built_in: bool = field(default=False, repr=False)
    middleware: tuple[Middleware, ...] = field(default=(), repr=False)

    @property
    def kind(self) -> Kind:
        """How the handler runs, api.md 2.3."""
        return "blocking" if self.blocking else "inline" if self.inline else "async"

    @property
    def name(self) -> str:
        """The handler as `module.qualname`; `oxbrook` of a built-in route."""
        return "oxbrook" if self.is_built_in else handler_name(self.fn)


@dataclass(frozen=True)
class Declaration:
    """What a decorator was given, to be bound once the whole path is known."""

    method: str
    path: str
    options: RouteOptions
    fn: Handler
    place: str
    local_names: Mapping[str, object]

    def bind(self, prefix: str, pool: AppPool, middleware: tuple[Middleware, ...] = ()) -> Route:
        """Check it under a prefix and return the route.

        Raises: TypeError or ValueError, naming the decorator's place.
        """
        with naming(self.place):
            path = prefix + self.path
            placeholders, shape = check_target(self.method, path)
            check_kind(self.fn, self.options)
            binding = bind(self.fn, handler_name(self.fn), placeholders, self.local_names)
            if binding.is_streamed and (self.options.blocking or self.options.inline):
                name = handler_name(self.fn)
                raise TypeError(f"handler {name} takes a BodyStream, which is awaited: make it async def")
        options = self.options
        return Route(
            method=self.method.upper(),
            path=path,
            fn=self.fn,
            params=binding.parameters,
            blocking=options.blocking,
            inline=options.inline,
            cancel_on_disconnect=options.cancel_on_disconnect,
            status=options.status,
            max_body=options.max_body,
            pool=pool if options.blocking else None,
            shape=shape,
            place=self.place,
            binding=binding,
            responses=options.responses,
            tags=tuple(options.tags),
            summary=options.summary,
            deprecated=options.deprecated,
            include_in_schema=options.include_in_schema,
            middleware=middleware,
        )


class RouteTable:
    """Routes in order of registration.

    Invariant: no two have the same method and shape (api.md 2.4).
    """

    def __init__(self, pool: AppPool, prefix: str = "") -> None:
        self.routes: list[Route] = []
        # Shapes that mounts answer for GET: shape, what it belongs to, where that is declared.
        self.reserved: list[tuple[str, str, str]] = []
        self._pool = pool
        self._prefix = prefix

    def decorator(
        self,
        method: str,
        path: str,
        options: RouteOptions,
        place: FrameType,
        keep: Callable[[Declaration], object] | None = None,
    ) -> Callable[[HandlerT], HandlerT]:
        """Return the decorator that registers a handler; `place` is the frame the route is declared in.

        `keep` is given the declaration once it is registered.

        Raises: ValueError or TypeError, here or from the decorator; the text ends with its `file:line`.
        """
        at = f"{place.f_code.co_filename}:{place.f_lineno}"
        with naming(at):
            options.check()
            if not isinstance(path, str):
                raise TypeError(f"path must be a str, not {type(path).__name__}")
            check_target(method, self._prefix + path)

        def register(fn: HandlerT) -> HandlerT:
            with naming(at):
                if not callable(fn):
                    raise TypeError(f"a handler must be a function, not {type(fn).__name__}")
            declared = Declaration(method, path, options, fn, at, place.f_locals)
            self.add(declared.bind(self._prefix, self._pool))
            if keep is not None:
                keep(declared)
            return fn

        return register

    def add(self, route: Route) -> None:
        """Append a route, unless it has the place of another."""
        for other in self.routes:
            if other.method == route.method and other.shape == route.shape:
                raise ValueError(
                    f"{route.method} {route.path} conflicts with {other.method} {other.path}, "
                    f"registered at {other.place} ({route.place})"
                )
        for shape, owner, declared in self.reserved:
            if route.method == "GET" and route.shape == shape:
                raise ValueError(
                    f"GET {route.path} conflicts with {owner}, declared at {declared} ({route.place})"
                )
        self.routes.append(route)

    def takes_get(self, shape: str) -> bool:
        """Whether a `GET` route or a mount has the place of that shape."""
        is_reserved = any(shape == other for other, _, _ in self.reserved)
        return is_reserved or any(other.method == "GET" and other.shape == shape for other in self.routes)

    def reserve(self, shapes: Sequence[str], owner: str, place: str) -> None:
        """Keep the places of a mount, unless a `GET` route or another mount has one."""
        of_get = (route for route in self.routes if route.method == "GET")
        taken = [(route.shape, f"GET {route.path}", route.place) for route in of_get]
        for shape, other, declared in (*taken, *self.reserved):
            if shape in shapes:
                raise ValueError(f"{owner} conflicts with {other}, declared at {declared} ({place})")
        self.reserved.extend((shape, owner, place) for shape in shapes)


def check_responses(responses: object) -> None:
    """Refuse documentation of answers that is not a mapping of status to a model or None."""
    if responses is None:
        return
    if not isinstance(responses, Mapping):
        raise TypeError(f"responses must map a status to a model or None, not {type(responses).__name__}")
    for status, model in responses.items():
        if type(status) is not int or not 100 <= status <= 599:
            raise ValueError(f"a status in responses must be an int from 100 to 599, not {status!r}")
        if model is not None and not is_model(model):
            raise TypeError(f"responses[{status}] must be a pydantic model or None, not {model!r}")


def built_in(method: str, path: str, fn: Handler, inline: bool = True) -> Route:
    """Return a route that the app answers by itself: public, and in no document."""
    names, shape = check_target(method, path)
    return Route(
        method=method,
        path=path,
        fn=fn,
        params=(),
        blocking=False,
        inline=inline,
        cancel_on_disconnect=True,
        status=200,
        max_body=None,
        pool=None,
        shape=shape,
        place="oxbrook",
        binding=bind(fn, "oxbrook", names),
        include_in_schema=False,
        is_built_in=True,
    )


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Add the decorator's place to the text of a mistake."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{error} ({place})") from None


def check_target(method: str, path: str) -> tuple[dict[str, bool], str]:
    """Return the placeholders of a path (name to whether it is a catch-all) and the path's shape.

    Raises: TypeError or ValueError for a bad method or path.
    """
    if not isinstance(method, str):
        raise TypeError(f"method must be a str, not {type(method).__name__}")
    if METHOD.fullmatch(method.upper()) is None:
        raise ValueError(f"{method!r} is not an HTTP method")
    if not isinstance(path, str):
        raise TypeError(f"path must be a str, not {type(path).__name__}")
    names = _core.check_path(path)
    return {name: f"{{*{name}}}" in path for name in names}, _core.shape(path)


def check_kind(fn: Handler, options: RouteOptions) -> None:
    """Refuse a handler whose way to run is not said, or said twice (api.md 2.3)."""
    name = handler_name(fn)
    if options.blocking and options.inline:
        raise TypeError(f"handler {name}: blocking=True and inline=True exclude each other")
    if is_kind(fn, inspect.isasyncgenfunction):
        raise TypeError(f"handler {name} is an async generator: return Stream(...) around one instead")
    if is_kind(fn, inspect.iscoroutinefunction):
        if options.blocking:
            raise TypeError(
                f"handler {name} is async def, it already runs on the worker loop: drop blocking=True"
            )
        if options.inline:
            raise TypeError(f"handler {name} is async def: inline=True is for a plain def")
    elif not options.blocking and not options.inline:
        raise TypeError(
            f"handler {name} is a plain def: say blocking=True to run it on the thread pool, "
            "or inline=True to run it on the worker loop when it neither blocks nor awaits"
        )


def is_kind(fn: Handler, test: Callable[[object], bool]) -> bool:
    """Ask `test` of a function, or of the `__call__` of an object that is called like one."""
    return test(fn) or test(type(fn).__call__)


def handler_name(fn: Handler) -> str:
    """Return `module.qualname` of a function, or that of the class of any other callable."""
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{named.__module__}.{named.__qualname__}"
