"""The pool of blocking handlers (api.md 2.3)."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from oxbrook import App
from oxbrook._blocking import Pool, default_threads
from oxbrook.testing import TestClient
from tests.support import DEADLINE


def test_no_thread_exists_before_the_first_call_and_never_more_than_threads() -> None:
    pool = Pool(2)
    before = set(threading.enumerate())
    assert (pool.threads, pool.started) == (2, False)
    gate = threading.Event()
    entered = threading.Semaphore(0)
    names: list[str] = []

    def call() -> None:
        names.append(threading.current_thread().name)
        entered.release()
        gate.wait(DEADLINE)

    for _ in range(5):
        pool.submit(call)
    assert all(entered.acquire(timeout=DEADLINE) for _ in range(2))
    assert pool.started
    assert len(set(threading.enumerate()) - before) == 2
    assert len(names) == 2
    gate.set()
    assert all(entered.acquire(timeout=DEADLINE) for _ in range(3))
    assert set(names) == {"oxbrook-blocking-0", "oxbrook-blocking-1"}
    assert pool.close(DEADLINE) == []
    assert set(threading.enumerate()) <= before


def test_a_thread_that_is_free_takes_the_next_call() -> None:
    pool = Pool(8)
    for _ in range(20):
        done = threading.Event()
        pool.submit(done.set)
        assert done.wait(DEADLINE)
        # The thread counts as free once its call is over, which is just after the event.
        while pool._unfinished:
            threading.Event().wait(0.001)
    assert len(pool._running) == 1
    pool.close(DEADLINE)


def test_what_was_not_begun_is_dropped_by_close_and_nothing_is_taken_after() -> None:
    pool = Pool(1)
    entered, gate = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        gate.wait(DEADLINE)

    class Waiting:
        dropped = 0

        def __call__(self) -> None:
            raise AssertionError("it was dropped")

        def drop(self) -> None:
            self.dropped += 1

    pool.submit(hold)
    assert entered.wait(DEADLINE)
    waiting = Waiting()
    pool.submit(waiting)
    assert len(pool.close(0)) == 1
    assert waiting.dropped == 1
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(hold)
    gate.set()
    assert pool.close(DEADLINE) == []


def test_run_gives_result_and_error_in_the_callers_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    pool = Pool()

    def join(a: str, b: str) -> str:
        return f"{variable.get()}{a}{b}"

    def fail() -> None:
        raise KeyError("no")

    async def main() -> None:
        variable.set("x")
        assert await pool.run(join, "y", "z") == "xyz"
        with pytest.raises(KeyError):
            await pool.run(fail)
        with pytest.raises(RuntimeError):
            await pool.run(next, iter(()))

    asyncio.run(main())
    assert pool.close(DEADLINE) == []
    assert pool.threads == default_threads() <= 32


def test_the_record_of_a_blocking_route_shows_the_pool_of_its_server() -> None:
    app = App()

    @app.get("/blocking", blocking=True)
    def blocking() -> str:
        return threading.current_thread().name

    @app.get("/async")
    async def other() -> str:
        return ""

    blocking_route, other_route = app.routes
    assert other_route.pool is None
    assert blocking_route.pool is not None
    assert blocking_route.pool.pool is None, "not served yet"
    with TestClient(app) as client:
        pool = app.routes[0].pool
        assert pool is not None
        assert isinstance(pool.pool, Pool)
        assert not pool.pool.started
        assert client.get("/blocking").text.startswith("oxbrook-blocking")
        assert pool.pool.started
