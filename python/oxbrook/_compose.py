"""What runs for a route that has more than a handler: dependencies, a body, middleware, exception handlers.

A chain of coroutine functions is made once for each route when a server is built. A route with nothing of the
kind is not composed at all: the engine calls its handler.

Invariant: the order is that of api.md 8.1 (the app's middleware, the routers', dependencies, body, handler),
and an exception handler's answer is a reply to every link outside it, never an exception. A client that
leaves cancels the handler and what comes before it; the teardown of dependencies and what middleware does
after it run to their end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any

from oxbrook import _errors
from oxbrook._depends import Resolution
from oxbrook._errors import HTTPError, RequestValidationError
from oxbrook._responses import Reply

if TYPE_CHECKING:
    from oxbrook._binding import Argument
    from oxbrook._blocking import Pool
    from oxbrook._core import Request
    from oxbrook._routing import Route

Next = Callable[["Request"], Awaitable[Reply]]
Middleware = Callable[["Request", Next], Awaitable[object]]
ExceptionHandler = Callable[["Request", Any], Awaitable[object]]
Handlers = Mapping[type[Exception], ExceptionHandler]
# A link of the chain: the request and the values of its parameters, as the engine coerced them.
Link = Callable[["Request", tuple[Any, ...]], Awaitable[object]]


@dataclass(frozen=True)
class Surroundings:
    """What of an app surrounds its handlers."""

    middleware: Sequence[Middleware]
    handlers: Handlers
    is_debug: bool
    pool: Pool


def compose(route: Route, around: Surroundings) -> Callable[..., Awaitable[object]] | None:
    """Return what the engine calls with the request and the values; None where the handler itself will do."""
    middleware = (*around.middleware, *route.middleware)
    if not middleware and not around.handlers and not route.binding.is_composed(route.kind):
        return None
    link = handler_link(route, around.pool)
    for each in reversed(middleware):
        link = middleware_link(each, link, around)

    async def endpoint(request: Request, *values: Any) -> object:
        try:
            return await link(request, values)
        except Exception as error:
            request._handler_failed()
            if not has_answer(error, around.handlers):
                raise
            return await answer_to(error, request, around)

    return endpoint


def handler_link(route: Route, pool: Pool) -> Link:
    """Return the innermost link: dependencies, body, handler."""
    arguments = route.binding.arguments
    call = caller(route, pool)
    if not any(argument.plan is not None for argument in arguments):

        async def plain(request: Request, values: tuple[Any, ...]) -> object:
            begin(request)
            try:
                positional, named = arrange(arguments, request, values)
                return await call(positional, named)
            except BaseException:
                request._handler_failed()
                raise
            finally:
                request._handler_ended()

        return plain

    async def with_dependencies(request: Request, values: tuple[Any, ...]) -> object:
        begin(request)
        resolution = Resolution(request)
        outcome: BaseException | None = None
        result: object = None
        try:
            resolved = [
                None if argument.plan is None else await resolution.value(argument.plan)
                for argument in arguments
            ]
            # Bodies after the dependencies, wherever they stand.
            positional, named = arrange(arguments, request, values, resolved)
            result = await call(positional, named)
        except BaseException as error:
            outcome = error
        request._handler_ended()
        outcome = await resolution.end(outcome)
        if outcome is not None:
            request._handler_failed()
            raise outcome
        return result

    return with_dependencies


def begin(request: Request) -> None:
    """A handler is about to run, for the first time or because middleware called on again.

    Raises: CancelledError where its client left while no handler ran.
    """
    if request._handler_begins():
        request._handler_failed()
        raise asyncio.CancelledError


def arrange(
    arguments: Sequence[Argument],
    request: Request,
    values: tuple[Any, ...],
    resolved: Sequence[Any] = (),
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a handler, those given by place and those given by name.

    `resolved` has the values of dependencies, each at the place of its argument.
    """
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for place, argument in enumerate(arguments):
        given: Any
        if argument.value is not None:
            given = values[argument.value]
        elif argument.plan is not None:
            given = resolved[place]
        elif argument.body is not None:
            given = argument.body(request)
        else:
            given = request
        if argument.is_keyword_only:
            named[argument.name] = given
        else:
            positional.append(given)
    return positional, named


def caller(route: Route, pool: Pool) -> Callable[[list[Any], dict[str, Any]], Awaitable[object]]:
    """Return how the handler itself is called (api.md 2.3)."""
    fn: Any = route.fn
    if route.kind == "async":

        def call(positional: list[Any], named: dict[str, Any]) -> Awaitable[object]:
            return fn(*positional, **named)  # type: ignore[no-any-return]

        return call

    def plain(positional: list[Any], named: dict[str, Any]) -> object:
        result = fn(*positional, **named)
        if isawaitable(result):
            close = getattr(result, "close", None)
            if close is not None:
                close()
            name = type(result).__name__
            raise TypeError(f"an inline or blocking handler returned an awaitable: {name}")
        return result

    async def call_here(positional: list[Any], named: dict[str, Any]) -> object:
        return plain(positional, named)

    async def call_on_pool(positional: list[Any], named: dict[str, Any]) -> object:
        return await pool.run(plain, positional, named)

    return call_on_pool if route.kind == "blocking" else call_here


def middleware_link(middleware: Middleware, inner: Link, around: Surroundings) -> Link:
    """Return a link that runs one middleware around the rest; what the rest raises is a reply to it."""

    def link(request: Request, values: tuple[Any, ...]) -> Awaitable[object]:
        async def call_next(request: Request) -> Reply:
            try:
                result = await inner(request, values)
            except Exception as error:
                request._handler_failed()
                if not has_answer(error, around.handlers):
                    raise
                result = await answer_to(error, request, around)
            return result if isinstance(result, Reply) else Reply(result)

        return middleware(request, call_next)

    return link


def has_answer(error: Exception, handlers: Handlers) -> bool:
    """Whether an exception is an answer, or there is a handler for its class (api.md 6.4)."""
    return isinstance(error, (HTTPError, RequestValidationError)) or handler_of(error, handlers) is not None


async def answer_to(error: Exception, request: Request, around: Surroundings) -> object:
    """Return the answer to an exception that has one: that of its handler, else its own."""
    handler = handler_of(error, around.handlers)
    if handler is None:
        return _errors.answer(error, request, around.is_debug)
    try:
        return await handler(request, error)
    except Exception as other:
        return _errors.answer(other, request, around.is_debug)


def handler_of(error: Exception, handlers: Handlers) -> ExceptionHandler | None:
    """Return the handler of the first class in the exception's MRO that has one."""
    for each in type(error).__mro__:
        handler = handlers.get(each)
        if handler is not None:
            return handler
    return None


def check_async(fn: object, what: str) -> None:
    """Refuse what is not an async function, or an object that is called like one.

    Raises: TypeError.
    """
    if not callable(fn) or not (iscoroutinefunction(fn) or iscoroutinefunction(type(fn).__call__)):
        raise TypeError(f"{what} must be an async function: {fn!r}")


def body_reader(model: Any) -> Callable[[Request], Any]:
    """Return what makes a model of the body of a request.

    Raises: RequestValidationError from it, when the body is not one.
    """
    from pydantic import ValidationError

    validate = validator_of(model)

    def read(request: Request) -> Any:
        try:
            return validate(request.body)
        except ValidationError as error:
            raise RequestValidationError.of(error) from None

    return read


def validator_of(model: Any) -> Callable[[bytes], Any]:
    """Return what makes a model of JSON text: its own validator, unless the class has another way.

    Raises: pydantic's ValidationError from it.
    """
    from pydantic import BaseModel

    method = model.model_validate_json
    usual: Any = BaseModel.model_validate_json
    # A class whose annotations are not all known yet gets its validator with the first use of the method.
    if method.__func__ is usual.__func__ and model.__pydantic_complete__:
        return model.__pydantic_validator__.validate_json  # type: ignore[no-any-return]
    return method  # type: ignore[no-any-return]
