"""A handler runs inside a Task from its first line on, whatever the loop ("Steps and Tasks").

Every test runs on asyncio with our selector, on asyncio with the reader callback, and on uvloop where it is.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib.util
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from oxbrook import App, Stream, _loops
from oxbrook._workers import gil_enabled
from oxbrook.testing import TestClient
from tests.support import eventually

HAS_UVLOOP = importlib.util.find_spec("uvloop") is not None and gil_enabled()
# uvloop turns the GIL of a free-threaded build back on, so it is tested where there is one.
LOOPS = ["selector", "reader", *(["uvloop"] if HAS_UVLOOP else [])]

Serve = Callable[[App], TestClient]
Task = asyncio.Task[object]


@pytest.fixture(params=LOOPS)
def serve(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Return a function that serves an app on one loop of the kind under test."""
    clients: list[TestClient] = []
    if request.param == "reader":
        monkeypatch.setattr(_loops, "can_poll", lambda: False)

    def start(app: App) -> TestClient:
        loop = "uvloop" if request.param == "uvloop" else "asyncio"
        clients.append(TestClient(app, workers=1, loop=loop).start())
        return clients[-1]

    yield start
    for client in clients:
        client.stop()


def current() -> Task:
    task = asyncio.current_task()
    assert task is not None
    return task


def test_the_task_is_there_before_the_first_await_and_the_same_after_it(serve: Serve) -> None:
    app = App()

    @app.get("/")
    async def same() -> bool:
        before = current()
        await asyncio.sleep(0)
        between = current()
        await asyncio.sleep(0.001)
        return before is between is current()

    client = serve(app)
    assert [client.get("/").json() for _ in range(5)] == [True] * 5


def test_a_task_has_the_name_of_its_own_handler_from_the_first_line_on(serve: Serve) -> None:
    """Also after another handler ran on it, and after one that gave it another name."""
    app = App()

    async def first() -> list[str]:
        before = current().get_name()
        await asyncio.sleep(0)
        return [before, current().get_name()]

    async def second() -> list[str]:
        return [current().get_name()]

    async def renames() -> str:
        current().set_name("mine")
        return current().get_name()

    async def renames_later() -> str:
        await asyncio.sleep(0)
        current().set_name("mine too")
        return current().get_name()

    for handler in (first, second, renames, renames_later):
        app.get(f"/{handler.__name__}")(handler)

    @app.get("/plain", inline=True)
    def plain() -> str:
        return current().get_name()

    client = serve(app)
    for _ in range(3):
        names = client.get("/first").json()
        assert len(names) == 2
        assert names[0] == names[1]
        assert names[0].endswith("first")
        assert client.get("/renames").text == "mine"
        (name,) = client.get("/second").json()
        assert name.endswith("second")
        assert client.get("/renames_later").text == "mine too"
        assert client.get("/plain").text.endswith("plain")


def test_timeouts_work_from_the_first_line_on(serve: Serve) -> None:
    app = App()

    @app.get("/in-time")
    async def in_time() -> str:
        async with asyncio.timeout(5):  # noqa: ASYNC100 - nothing is awaited, which must be fine
            return "in time"

    @app.get("/late")
    async def late() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(30)
        except TimeoutError:
            return "late"
        return "never"

    client = serve(app)
    for _ in range(3):
        assert client.get("/in-time").text == "in time"
        assert client.get("/late").text == "late"


def test_task_groups_and_shield_work_before_the_first_await(serve: Serve) -> None:
    app = App()

    async def number(value: int) -> int:
        await asyncio.sleep(0.001)
        return value

    @app.get("/group")
    async def group() -> int:
        async with asyncio.TaskGroup() as tasks:
            parts = [tasks.create_task(number(value)) for value in (1, 2)]
        return sum(part.result() for part in parts)

    @app.get("/shield")
    async def shield() -> int:
        return await asyncio.shield(number(7))

    client = serve(app)
    assert client.get("/group").json() == 3
    assert client.get("/shield").json() == 7


def test_an_anyio_scope_entered_before_the_first_await_cancels_and_ends(serve: Serve) -> None:
    anyio = pytest.importorskip("anyio")
    app = App()

    @app.get("/")
    async def scoped() -> list[bool]:
        with anyio.move_on_after(0.01) as scope:
            await anyio.sleep(30)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep, 0.001)
        with anyio.CancelScope() as other:
            pass
        return [scope.cancelled_caught, other.cancelled_caught]

    client = serve(app)
    assert [client.get("/").json() for _ in range(3)] == [[True, False]] * 3


def test_a_cancellation_a_handler_left_on_its_task_does_not_reach_the_next(serve: Serve) -> None:
    app = App()

    @app.get("/leaves")
    async def leaves() -> str:
        current().cancel()
        return "returned"

    @app.get("/waits")
    async def waits() -> str:
        await asyncio.sleep(0)
        return str(current().cancelling())

    client = serve(app)
    for _ in range(5):
        assert client.get("/leaves").text == "returned"
        assert client.get("/waits").text == "0"


def test_a_task_that_was_kept_ends_with_its_handler_and_is_used_for_no_other(serve: Serve) -> None:
    app = App()
    kept: list[Task] = []
    called: list[Task] = []

    @app.get("/kept")
    async def keep() -> str:
        kept.append(current())
        return "kept"

    @app.get("/kept-later")
    async def keep_later() -> str:
        await asyncio.sleep(0)
        kept.append(current())
        return "kept"

    @app.get("/watched")
    async def watch() -> str:
        current().add_done_callback(called.append)
        return "watched"

    @app.get("/other")
    async def other() -> bool:
        return current() in kept

    client = serve(app)
    for path in ("/kept", "/kept-later", "/watched"):
        client.get(path)
        assert client.get("/other").json() is False
    eventually(lambda: all(task.done() for task in kept), "the kept Tasks end")
    eventually(lambda: called, "the done callback runs")
    assert [task.cancelled() for task in kept] == [False, False]


def test_spares_are_used_again_when_nothing_was_left_on_them(serve: Serve) -> None:
    app = App()

    @app.get("/")
    async def name() -> str:
        return current().get_name()

    @app.get("/slow")
    async def slow() -> int:
        await asyncio.sleep(0.001)
        return id(current())

    client = serve(app)
    assert len({client.get("/").text for _ in range(20)}) == 1
    assert len({client.get("/slow").json() for _ in range(20)}) == 1


def test_invariant_8_what_a_handler_sets_in_its_context_reaches_no_other(serve: Serve) -> None:
    app = App()
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")

    @app.get("/at-once")
    async def at_once() -> str:
        before = variable.get()
        variable.set("dirty")
        return before

    @app.get("/later")
    async def later() -> str:
        before = variable.get()
        variable.set("dirty")
        await asyncio.sleep(0.001)
        return before if variable.get() == "dirty" else "lost"

    client = serve(app)
    # A held loop, so that many of them are drained in one step.
    with ThreadPoolExecutor(16) as pool:
        paths = ["/at-once", "/later"] * 40
        assert {answer.text for answer in pool.map(client.get, paths)} == {"clean"}


def test_exceptions_of_every_kind_end_the_request_and_nothing_else(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    app = App()
    errors: list[BaseException] = [
        RuntimeError("plain"),
        ExceptionGroup("group", [ValueError(1), TypeError(2)]),
        BaseExceptionGroup("base", [KeyboardInterrupt()]),
        KeyboardInterrupt(),
        SystemExit(3),
        GeneratorExit(),
        asyncio.CancelledError(),
        StopAsyncIteration(),
    ]

    @app.get("/now/{index}")
    async def now(index: int) -> None:
        raise errors[index]

    @app.get("/later/{index}")
    async def later(index: int) -> None:
        await asyncio.sleep(0)
        raise errors[index]

    @app.get("/fine")
    async def fine() -> str:
        await asyncio.sleep(0)
        return "fine"

    client = serve(app)
    with caplog.at_level(logging.CRITICAL, "oxbrook"):
        for index in range(len(errors)):
            for path in (f"/now/{index}", f"/later/{index}"):
                assert client.get(path).status_code == 500, errors[index]
                assert client.get("/fine").text == "fine"


def test_all_tasks_names_the_handlers(serve: Serve) -> None:
    app = App()
    release = threading.Event()
    running = threading.Event()

    @app.get("/waiting")
    async def the_waiting_one() -> str:
        running.set()
        while not release.is_set():
            await asyncio.sleep(0.001)
        return "released"

    @app.get("/")
    async def names() -> list[str]:
        return [repr(task) for task in asyncio.all_tasks()]

    @app.get("/coroutines")
    async def coroutines() -> list[str]:
        return [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]

    client = serve(app)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.get, "/waiting")
        assert running.wait(10)
        shown = client.get("/").json()
        qualified = client.get("/coroutines").json()
        release.set()
        assert waiting.result().text == "released"
    assert any("the_waiting_one" in text for text in shown)
    assert any("names()" in text for text in shown)
    assert any(text.endswith("the_waiting_one") for text in qualified)
    assert any(text.endswith("coroutines") for text in qualified)


def test_cancelling_every_task_of_the_loop_does_not_end_dispatch(serve: Serve) -> None:
    app = App()

    @app.get("/cancel")
    async def cancel() -> str:
        for task in asyncio.all_tasks():
            coroutine = getattr(task.get_coro(), "__qualname__", "")
            if task is not current() and "WorkerLoop" not in coroutine:
                task.cancel()
        return "cancelled"

    @app.get("/")
    async def fine() -> str:
        await asyncio.sleep(0)
        return "fine"

    client = serve(app)
    with ThreadPoolExecutor(8) as pool:
        assert {answer.text for answer in pool.map(client.get, ["/"] * 16)} == {"fine"}
        for _ in range(3):
            assert client.get("/cancel").text == "cancelled"
            assert {answer.text for answer in pool.map(client.get, ["/"] * 16)} == {"fine"}


def test_a_handler_may_await_futures_of_its_own_and_gather(serve: Serve) -> None:
    app = App()

    @app.get("/")
    async def mixed() -> list[object]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[str] = loop.create_future()
        loop.call_later(0.001, future.set_result, "set")
        first = await future
        rest = await asyncio.gather(asyncio.sleep(0, "a"), asyncio.to_thread(lambda: "b"))
        return [first, *rest]

    assert serve(app).get("/").json() == ["set", "a", "b"]


def test_a_stream_goes_on_in_the_task_of_its_handler(serve: Serve) -> None:
    app = App()

    @app.get("/")
    async def stream() -> Stream:
        handler = current()

        async def pieces() -> AsyncIterator[str]:
            for index in range(3):
                yield f"{index}{current() is handler}"
                await asyncio.sleep(0.001)

        return Stream(pieces())

    client = serve(app)
    assert client.get("/").text == "0True1True2True"


def test_invariant_8_another_thread_cannot_step_the_task_of_a_loop(serve: Serve) -> None:
    app = App()

    def step(task: Task) -> str:
        try:
            task.get_coro().send(None)
        except RuntimeError as error:
            return str(error)
        return "stepped"

    @app.get("/")
    async def offer() -> str:
        return await asyncio.to_thread(step, current())

    assert "another thread" in serve(app).get("/").text


def test_a_signal_handler_is_refused_in_words_that_help(serve: Serve) -> None:
    app = App()

    @app.get("/")
    async def add() -> str:
        try:
            asyncio.get_running_loop().add_signal_handler(2, print)
        except RuntimeError as error:
            return str(error)
        return "taken"

    assert "worker loops do not run on the main thread" in serve(app).get("/").text
