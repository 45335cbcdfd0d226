"""Dependencies: what a handler is given by `Depends(...)` (api.md 7).

A dependency's signature is read once, at registration. A request runs the plan that came of it.

Invariant: every generator that was begun is resumed exactly once, last begun first, whatever others raise.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from oxbrook._annotations import resolve, show, signature
from oxbrook._core import Request

MAX_DEPTH: Final = 20
TOO_DEEP: Final = f"dependencies are nested deeper than {MAX_DEPTH}"

Kind = Literal["sync", "async", "generator", "async generator"]


@dataclass(frozen=True, slots=True)
class Dependency:
    """What `Depends` returns: a declaration, read once at registration."""

    dependency: Callable[..., Any]
    use_cache: bool

    def __repr__(self) -> str:
        return f"Depends({show(self.dependency)})"


def Depends(dependency: Callable[..., Any], *, use_cache: bool = True) -> Any:
    """As a parameter's default: the parameter gets what calling `dependency` gives.

    `dependency` is a function, method, class or object that is called, sync or async, or a (async) generator
    function, whose part after the `yield` runs before the answer is sent. It gets the request and its own
    dependencies. One result serves the whole request, unless `use_cache=False`.

    Typed as anything, so that it may be the default of a parameter of any type.

    Raises: TypeError if it cannot be called.
    """
    if not callable(dependency):
        raise TypeError(f"Depends takes a callable, not {type(dependency).__name__}")
    return Dependency(dependency, use_cache)


@dataclass(frozen=True)
class Slot:
    """One argument of a dependency: the request where `plan` is None, else what the plan gives."""

    keyword: str | None
    plan: Plan | None


@dataclass(frozen=True)
class Plan:
    """How a dependency is called."""

    call: Callable[..., Any]
    kind: Kind
    use_cache: bool
    slots: tuple[Slot, ...]
    depth: int


def plan_of(depends: Dependency, depth: int = 1) -> Plan:
    """Read the signature of a dependency and of all below it."""
    call = depends.dependency
    if depth > MAX_DEPTH:
        # Said on the request, as a 500: how deep it goes may be none of the handler's doing.
        return Plan(call, "sync", depends.use_cache, (), depth)
    return Plan(call, kind_of(call), depends.use_cache, slots_of(call, depth), depth)


def slots_of(call: Callable[..., Any], depth: int) -> tuple[Slot, ...]:
    """Return what a dependency is given: the request, and its own dependencies; nothing else is filled."""
    try:
        found = list(signature(call, show(call)).parameters.values())
    except TypeError:  # a class of C, for example: it is called with nothing
        return ()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = [one for one in found if one.kind in (*positional, *named)]
    request = request_of(found, call, positional)
    slots = []
    is_by_name = False
    for parameter in found:
        plan = None
        if isinstance(parameter.default, Dependency):
            plan = plan_of(parameter.default, depth + 1)
        elif parameter is not request:
            # What follows a parameter that keeps its default is given by name.
            is_by_name = True
            continue
        keyword = parameter.name if is_by_name or parameter.kind is parameter.KEYWORD_ONLY else None
        slots.append(Slot(keyword, plan))
    return tuple(slots)


def request_of(
    found: list[inspect.Parameter], call: Callable[..., Any], positional: tuple[object, ...]
) -> inspect.Parameter | None:
    """Return the parameter that gets the request: annotated or named so, else the first positional one."""
    for parameter in found:
        annotation = resolve(parameter.annotation, call, MappingProxyType({}))
        if annotation is Request or parameter.name == "request":
            return parameter
    first = next((one for one in found if one.kind in positional), None)
    return None if first is None or isinstance(first.default, Dependency) else first


def kind_of(call: Callable[..., Any]) -> Kind:
    """Return how a dependency runs."""
    tests: tuple[tuple[Callable[[object], bool], Kind], ...] = (
        (inspect.isasyncgenfunction, "async generator"),
        (inspect.isgeneratorfunction, "generator"),
        (inspect.iscoroutinefunction, "async"),
    )
    for test, kind in tests:
        if test(call) or (not inspect.isclass(call) and test(type(call).__call__)):
            return kind
    return "sync"


class Resolution:
    """The dependencies of one request: their results, and the generators that are still to be resumed."""

    __slots__ = ("cache", "open", "request")

    def __init__(self, request: Request) -> None:
        self.request = request
        self.cache: dict[Callable[..., Any], Any] = {}
        self.open: list[AsyncGenerator[Any, None] | Generator[Any, None, None]] = []

    async def value(self, plan: Plan) -> Any:
        """Return what a dependency gives."""
        if plan.depth > MAX_DEPTH:
            raise RuntimeError(TOO_DEEP)
        if plan.use_cache and plan.call in self.cache:
            return self.cache[plan.call]
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for slot in plan.slots:
            given = self.request if slot.plan is None else await self.value(slot.plan)
            if slot.keyword is None:
                positional.append(given)
            else:
                named[slot.keyword] = given
        result = plan.call(*positional, **named)
        if plan.kind == "async":
            result = await result
        elif plan.kind == "generator":
            result = self.begin(result)
        elif plan.kind == "async generator":
            result = await self.begin_async(result)
        if plan.use_cache:
            self.cache[plan.call] = result
        return result

    def begin(self, generator: Generator[Any, None, None]) -> Any:
        """Run a generator up to its `yield`."""
        for value in generator:
            self.open.append(generator)
            return value
        raise RuntimeError("a generator dependency has to yield once: it yielded nothing")

    async def begin_async(self, generator: AsyncGenerator[Any, None]) -> Any:
        """Run an async generator up to its `yield`."""
        async for value in generator:
            self.open.append(generator)
            return value
        raise RuntimeError("a generator dependency has to yield once: it yielded nothing")

    async def end(self, outcome: BaseException | None) -> BaseException | None:
        """Resume every generator, last begun first; return `outcome`, or what replaced it."""
        while self.open:
            generator = self.open.pop()
            try:
                if isinstance(generator, Generator):
                    resume(generator, outcome)
                else:
                    await resume_async(generator, outcome)
            except BaseException as error:
                outcome = error
        return outcome


TWICE: Final = "a generator dependency has to yield once: it yielded again"


def resume(generator: Generator[Any, None, None], outcome: BaseException | None) -> None:
    """Let a generator see the outcome; swallowing an exception changes nothing.

    Raises: what it raises in its place.
    """
    try:
        if outcome is None:
            next(generator)
        else:
            generator.throw(outcome)
    except StopIteration:
        return
    except BaseException as error:
        if error is outcome:
            return
        raise
    generator.close()
    raise RuntimeError(TWICE)


async def resume_async(generator: AsyncGenerator[Any, None], outcome: BaseException | None) -> None:
    """As `resume`, of an async generator."""
    try:
        if outcome is None:
            await anext(generator)
        else:
            await generator.athrow(outcome)
    except StopAsyncIteration:
        return
    except BaseException as error:
        if error is outcome:
            return
        raise
    await generator.aclose()
    raise RuntimeError(TWICE)
