"""Lifespan hooks and what they yield (api.md 9)."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from oxbrook import App, Request
from oxbrook.testing import TestClient
from tests.support import DEADLINE, Command, eventually

# Called with what a type checker would refuse.
make: Any = App


def test_hooks_run_around_serving_in_order_and_their_values_are_the_state() -> None:
    seen: list[str] = []
    loops: set[int] = set()

    async def lifespan(app: App) -> AsyncIterator[dict[str, object]]:
        seen.append(f"process begins with {app.workers}")
        yield {"name": "process"}
        seen.append("process ends")

    @asynccontextmanager
    async def worker_lifespan(app: App) -> AsyncIterator[dict[str, object]]:
        assert app.state.name == "process"
        loops.add(id(asyncio.get_running_loop()))
        seen.append(f"loop begins with {app.per_worker(10)}")
        yield {"loop": id(asyncio.get_running_loop())}
        seen.append("loop ends")

    app = App(lifespan=lifespan, worker_lifespan=worker_lifespan)

    @app.get("/")
    async def handler(request: Request) -> list[object]:
        return [request.state.name, request.state.loop == id(asyncio.get_running_loop())]

    @app.get("/blocking", blocking=True)
    def blocking(request: Request) -> list[object]:
        return [request.state["name"], request.state.loop in loops]

    for _ in range(2):
        seen.clear()
        loops.clear()
        assert "name" not in app.state
        with TestClient(app, workers=2) as client:
            for path in ("/", "/blocking") * 4:
                assert client.get(path).json() == ["process", True]
            assert app.state.name == "process"
        assert len(loops) == 2
        expected = ["process begins with 2", *["loop begins with 5"] * 2, *["loop ends"] * 2, "process ends"]
        assert seen == expected
        assert "name" not in app.state


def test_a_task_group_may_stand_around_the_yield() -> None:
    ticks: list[int] = []

    async def worker_lifespan(app: App) -> AsyncIterator[None]:
        async def tick() -> None:
            while True:
                ticks.append(1)
                await asyncio.sleep(0.001)

        async with asyncio.TaskGroup() as group:
            ticking = group.create_task(tick())
            yield
            # The app's own tasks are there until the teardown has run.
            assert not ticking.done()
            ticking.cancel()

    app = App(worker_lifespan=worker_lifespan)
    with TestClient(app):
        eventually(lambda: len(ticks) > 2, "the task runs while the loop serves")


def test_handlers_end_before_the_teardown() -> None:
    seen: list[str] = []

    async def worker_lifespan(app: App) -> AsyncIterator[None]:
        yield
        seen.append("teardown")

    app = App(worker_lifespan=worker_lifespan)
    began = threading.Event()

    @app.get("/")
    async def handler() -> None:
        began.set()
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.01)
            seen.append("handler")

    client = TestClient(app, workers=1, shutdown_grace=0.5).start()
    asking = threading.Thread(target=lambda: client.get("/"))
    asking.start()
    assert began.wait(DEADLINE)
    server = client._server
    assert server is not None
    server.shutdown()
    asking.join()
    client.stop()
    assert seen == ["handler", "teardown"]


@pytest.mark.parametrize("which", ["lifespan", "worker_lifespan"])
def test_what_a_hook_raises_at_startup_is_raised_by_serve(which: str) -> None:
    seen: list[str] = []

    async def other(app: App) -> AsyncIterator[None]:
        seen.append("other begins")
        yield
        seen.append("other ends")

    async def fails(app: App) -> AsyncIterator[None]:
        if app.workers:
            raise LookupError("no database")
        yield

    async def never(app: App) -> AsyncIterator[None]:
        for _ in range(0):
            yield

    async def yields_text(app: App) -> AsyncIterator[Any]:
        yield "text"

    async def coroutine(app: App) -> None: ...

    def nothing(app: App) -> None: ...

    for hook, error in (
        (fails, LookupError),
        (never, RuntimeError),
        (yields_text, TypeError),
        (coroutine, TypeError),
        (nothing, TypeError),
    ):
        seen.clear()
        second = "worker_lifespan" if which == "lifespan" else "lifespan"
        with pytest.raises(error):
            TestClient(make(**{which: hook, second: other}), workers=2).start()
        # The process's hook is set up first and torn down in any case; the loops' never began.
        assert seen == ([] if which == "lifespan" else ["other begins", "other ends"])


def test_loops_that_are_up_are_torn_down_when_a_later_one_fails() -> None:
    seen: list[str] = []

    async def worker_lifespan(app: App) -> AsyncIterator[None]:
        seen.append("begins")
        if len(seen) == 3:
            raise LookupError("the third")
        yield
        seen.append("ends")

    with pytest.raises(LookupError, match="the third"):
        TestClient(App(worker_lifespan=worker_lifespan), workers=4).start()
    assert seen == ["begins"] * 3 + ["ends"] * 2


def test_one_key_of_both_hooks_is_refused() -> None:
    async def yields(app: App) -> AsyncIterator[dict[str, int]]:
        yield {"db": 1, "other": 2}

    async def yields_too(app: App) -> AsyncIterator[dict[str, int]]:
        yield {"db": 3}

    with pytest.raises(ValueError, match="both yield 'db'"):
        TestClient(App(lifespan=yields, worker_lifespan=yields_too)).start()


def test_a_teardown_that_raises_is_printed_and_the_others_go_on(capfd: pytest.CaptureFixture[str]) -> None:
    ended: list[int] = []

    async def worker_lifespan(app: App) -> AsyncIterator[None]:
        yield
        ended.append(1)
        if len(ended) == 1:
            raise LookupError("in the teardown")

    with TestClient(App(worker_lifespan=worker_lifespan), workers=2):
        pass
    assert len(ended) == 2
    assert "LookupError: in the teardown" in capfd.readouterr().err


ENDS_IN = """
    import asyncio
    from oxbrook import App

    @lambda make: make()
    def app():
        async def hook(app):
            async def generator():
                try:
                    yield
                finally:
                    print("generator closed", flush=True)

            left = generator()
            await anext(left)
            app.left = left
            yield
            raise {error}("in the teardown")

        app = App({which}=hook)

        @app.get("/")
        async def hello():
            return "hello"

        return app
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("error", ["asyncio.CancelledError", "KeyboardInterrupt", "SystemExit"])
def test_whatever_a_teardown_raises_is_printed_and_the_rest_of_its_end_goes_on(
    serve: Callable[..., Command], error: str, loop: str
) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    source = ENDS_IN.replace("{which}", "worker_lifespan").replace("{error}", error)
    server = serve(source, "--loop", loop, "--workers", "1")
    assert httpx.get(server.url, timeout=DEADLINE).text == "hello"
    assert server.stop() == 0
    assert f"{error.rpartition('.')[2]}: in the teardown" in server.err.text
    assert server.err.text.count("in the teardown") == 2, "the line of the source, and the error"
    assert "never awaited" not in server.err.text
    assert "generator closed" in server.out.text


def test_a_cancelled_teardown_of_the_process_is_raised(serve: Callable[..., Command]) -> None:
    source = ENDS_IN.replace("{which}", "lifespan").replace("{error}", "asyncio.CancelledError")
    server = serve(source)
    assert httpx.get(server.url, timeout=DEADLINE).text == "hello"
    assert server.stop() == 1
    assert "CancelledError: in the teardown" in server.err.text


def test_hooks_have_to_be_callable() -> None:
    for name in ("lifespan", "worker_lifespan"):
        with pytest.raises(TypeError, match=f"{name} must be callable"):
            make(**{name: 1})


def test_per_worker_needs_a_server_and_a_share_for_each_loop() -> None:
    app = App()
    with pytest.raises(RuntimeError, match="worker_lifespan"):
        app.per_worker(4)
    app.build_server("127.0.0.1", 0, 3, 1, 1, 1, 1, 1, 16777216)
    assert app.per_worker(10) == 3
    with pytest.raises(ValueError, match="at least one"):
        app.per_worker(2)
    total: Any
    for total in (0, -1, 1.5, True, "3"):
        with pytest.raises(ValueError, match="an int of at least 1"):
            app.per_worker(total)


HANGING = """
    import asyncio
    from oxbrook import App

    async def hangs(app):
        print("setting up", flush=True)
        {before}
        yield
        print("tearing down", flush=True)
        await asyncio.sleep(600)

    app = App({which}=hangs)

    @app.get("/")
    async def hello():
        return "hello"
"""


@pytest.mark.parametrize("which", ["lifespan", "worker_lifespan"])
def test_a_hook_that_hangs_does_not_keep_the_process(serve: Callable[..., Command], which: str) -> None:
    stuck = HANGING.replace("{which}", which).replace("{before}", "await asyncio.sleep(600)")
    server = serve(stuck, "--shutdown-grace", "500")
    server.out.wait_for("setting up")
    assert server.stop(signal.SIGTERM) == 0
    assert server.err.text == ""
    assert "listening" not in server.out.text

    slow = HANGING.replace("{which}", which).replace("{before}", "")
    server = serve(slow, "--shutdown-grace", "0.2")
    assert httpx.get(server.url, timeout=DEADLINE).text == "hello"
    assert server.stop() == 0
    server.out.wait_for("tearing down")
    (line,) = server.err.lines
    assert "still tearing down" in line


def test_a_worker_lifespan_that_ends_while_the_loop_serves_ends_the_server_with_an_error(
    serve: Callable[..., Command], tmp_path: Path
) -> None:
    source = """
        import asyncio
        from oxbrook import App

        async def breaks(app):
            async def fail():
                await asyncio.sleep(0.05)
                raise LookupError("the connection broke")
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                yield

        app = App(worker_lifespan=breaks)
    """
    server = serve(source)
    assert server.ended() == 1
    assert "worker_lifespan ended" in server.err.text
    assert "the connection broke" in server.err.text
