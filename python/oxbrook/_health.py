"""`Health`: probes for whoever runs the server, and the checks an app adds to them (api.md 16.1).

Whether the server lives, drains or stalls is answered by the engine, without a loop; only checks run here,
each on every loop.

Invariant: why a check failed is logged and never sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, overload

from oxbrook import _core
from oxbrook._options import is_duration
from oxbrook._responses import Response

if TYPE_CHECKING:
    from oxbrook._routing import Route
    from oxbrook._state import State

LOGGER: Final = logging.getLogger("oxbrook.health")
OK: Final = "ok"
FAILED: Final = "failed"
TIMEOUT: Final = "timeout"
# How long a loop is waited for past the time of its checks, in seconds: it may be what is being found out.
LOOP_GRACE: Final = 0.1

Check = Callable[[Any], Awaitable[object]]
CheckT = TypeVar("CheckT", bound=Check)


class Place(Protocol):
    """A loop and the state that its handlers see."""

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None: ...
    @property
    def state(self) -> State | None: ...


class Health:
    """Probes at `live` and `ready`, for `GET` and `HEAD`; `App(health=Health())` has them.

    `stall_after`: seconds a loop may leave requests waiting; `timeout`: seconds for all checks together;
    `drain_delay`: seconds for which a stop serves on, new connections too, while readiness already fails.

    Raises: TypeError for a path that is no str; ValueError for a bad path, two equal ones, or a number that
        is not finite, negative, or not above 0 where it has to be.
    """

    def __init__(
        self,
        *,
        live: str = "/livez",
        ready: str = "/readyz",
        stall_after: float = 10.0,
        timeout: float = 1.0,
        drain_delay: float = 0.0,
    ) -> None:
        for name, path in (("live", live), ("ready", ready)):
            if not isinstance(path, str):
                raise TypeError(f"{name} must be a str, not {type(path).__name__}")
            try:
                has_placeholders = bool(_core.check_path(path))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
            if has_placeholders:
                raise ValueError(f"{name} cannot hold placeholders: {path!r}")
        if live == ready:
            raise ValueError(f"live and ready cannot both be {live!r}")
        for name, number, least in (
            ("stall_after", stall_after, math.nextafter(0, 1)),
            ("timeout", timeout, math.nextafter(0, 1)),
            ("drain_delay", drain_delay, 0.0),
        ):
            is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
            if not is_number or not is_duration(number) or number < least:
                bound = "0 or more" if least == 0.0 else "above 0"
                raise ValueError(f"{name} must be a number of seconds, {bound}, not {number!r}")
        self.live = live
        self.ready = ready
        self.stall_after = float(stall_after)
        self.timeout = float(timeout)
        self.drain_delay = float(drain_delay)
        self._checks: dict[str, Check] = {}

    @property
    def checks(self) -> Mapping[str, Check]:
        """The checks by their names; a new dict each time."""
        return dict(self._checks)

    @overload
    def check(self, fn: CheckT, /) -> CheckT: ...
    @overload
    def check(self, /, *, name: str) -> Callable[[CheckT], CheckT]: ...
    def check(self, fn: Check | None = None, /, *, name: str | None = None) -> Any:
        """Have `async def fn(state)` asked by every readiness probe, on every loop with its own state.

        It fails by raising, by returning False, or by taking longer than `timeout`. Its name is that of the
        function unless `name` is given.

        Raises: TypeError if it is no async function, or a name no str; ValueError for a name that is taken.
        """

        def register(fn: Check) -> Check:
            if not iscoroutinefunction(fn) and not iscoroutinefunction(getattr(fn, "__call__", None)):  # noqa: B004
                raise TypeError(f"a health check must be an async function: {fn!r}")
            called = getattr(fn, "__name__", type(fn).__name__) if name is None else name
            if not isinstance(called, str):
                raise TypeError(f"the name of a health check is a str, not {type(called).__name__}")
            if called in self._checks:
                raise ValueError(f"there is a health check named {called!r} already")
            self._checks[called] = fn
            return fn

        return register if fn is None else register(fn)


def probes(health: Health) -> _core.Probes:
    """Return the probes of a server as the engine takes them."""
    return _core.Probes(health.live, health.ready, health.stall_after, bool(health.checks))


def ready_route(health: Health, places: Sequence[Place]) -> Route:
    """Return the route that answers readiness where an app has checks; the engine answers what needs none."""
    from oxbrook._routing import built_in

    checks = health.checks

    async def ready() -> Response:
        found = await asyncio.gather(*(asked(place, checks, health.timeout) for place in places))
        outcomes = {name: worst([outcome[name] for outcome in found]) for name in checks}
        is_ready = all(outcome == OK for outcome in outcomes.values())
        body = {"status": "ready" if is_ready else "unavailable", "checks": outcomes}
        return Response(
            _core.encode_json(body),
            200 if is_ready else 503,
            "application/json",
            {"cache-control": "no-store"},
        )

    return built_in("GET", health.ready, ready, inline=False)


def worst(outcomes: Sequence[str]) -> str:
    """Return what a check came to, from what it came to on each loop."""
    return next((bad for bad in (FAILED, TIMEOUT) if bad in outcomes), OK)


async def asked(place: Place, checks: Mapping[str, Check], timeout: float) -> dict[str, str]:
    """Run the checks on a loop, and return what each came to there."""
    event_loop, state = place.event_loop, place.state
    late = dict.fromkeys(checks, TIMEOUT)
    if event_loop is None:
        return late
    running = all_checks(checks, state, timeout)
    try:
        future = asyncio.run_coroutine_threadsafe(running, event_loop)
    except RuntimeError:  # it was closed meanwhile
        running.close()
        return late
    waiting = asyncio.wrap_future(future)
    # Unlike awaiting it, this does not raise where that loop, which ends, cancelled it.
    done, _ = await asyncio.wait([waiting], timeout=timeout + LOOP_GRACE)
    if not done:
        waiting.cancel()
    return late if not done or waiting.cancelled() else waiting.result()


async def all_checks(checks: Mapping[str, Check], state: State | None, timeout: float) -> dict[str, str]:
    """Run the checks side by side on this loop, all within `timeout` seconds."""
    tasks = {name: asyncio.ensure_future(one(name, check, state)) for name, check in checks.items()}
    try:
        await asyncio.wait(tasks.values(), timeout=timeout)
        return {name: task.result() if task.done() else TIMEOUT for name, task in tasks.items()}
    finally:
        for name, task in tasks.items():
            if not task.done():
                LOGGER.error("health check %r took longer than %g s", name, timeout, extra={"check": name})
                task.cancel()


async def one(name: str, check: Check, state: State | None) -> str:
    """Run one check; what it raises is logged."""
    with contextlib.suppress(asyncio.CancelledError):
        try:
            if await check(state) is not False:
                return OK
            LOGGER.error("health check %r returned False", name, extra={"check": name})
        except Exception:
            LOGGER.exception("health check %r failed", name, extra={"check": name})
        return FAILED
    return TIMEOUT
