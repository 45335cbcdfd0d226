"""Teardown runs to its end, whenever the client leaves or the time is over (api.md 7 and 16.9).

Nothing here waits for a time: one I/O thread sees events in their order, so once it has answered a later
request, it has told the loop of a client that left before; and the loop hears that before it takes a request
that came after.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest

from oxbrook import App, Depends, HTTPError, Reply, Request
from oxbrook.testing import TestClient
from tests.support import DEADLINE, eventually

Next = Callable[[Request], Awaitable[Reply]]


class Traced:
    """An app with two middleware and three dependencies around each handler, all of which await at their end.

    Each end waits at a gate, which `open` opens for the next one, and notes that it began, and that it ended.
    """

    def __init__(self, request_timeout: float = 0.0, **options: Any) -> None:
        self.app = App()
        self.seen: list[str] = []
        self.reached = threading.Event()
        self.release = threading.Event()
        self.gate = asyncio.Semaphore(0)
        for name in ("first", "second"):
            self.app.middleware(self.middleware(name))
        outer = Depends(self.dependency("outer"))
        middle = Depends(self.dependency("middle"))
        inner = Depends(self.dependency("inner"))

        @self.app.get("/waits")
        async def waits(one: str = outer, two: str = middle, three: str = inner) -> str:
            self.reached.set()
            await asyncio.Event().wait()
            return one

        @self.app.get("/holds")
        async def holds(one: str = outer, two: str = middle, three: str = inner) -> str:
            await asyncio.sleep(0)
            self.reached.set()
            # In one step with the return: what is noticed meanwhile arrives after it.
            self.release.wait(DEADLINE)
            return one

        @self.app.get("/returns")
        async def returns(one: str = outer, two: str = middle, three: str = inner) -> str:
            return one

        @self.app.get("/fails")
        async def fails(one: str = outer, two: str = middle, three: str = inner) -> str:
            raise HTTPError(418)

        # Inline and without the middleware's own waiting: it is told apart by its path.
        @self.app.post("/open")
        async def open_gate() -> None:
            self.gate.release()

        self.client = TestClient(
            self.app, workers=1, io_threads=1, request_timeout=request_timeout, **options
        )

    def note(self, text: str) -> None:
        self.seen.append(text)

    def middleware(self, name: str) -> Any:
        async def around(request: Request, call_next: Next) -> object:
            if request.path == "/open":
                return await call_next(request)
            try:
                return await call_next(request)
            finally:
                await self.end(name)

        return around

    def dependency(self, name: str) -> Any:
        async def resource() -> AsyncIterator[str]:
            try:
                yield name
            finally:
                await self.end(name)

        return resource

    async def end(self, name: str) -> None:
        self.note(f"{name} begins")
        self.reached.set()
        await self.gate.acquire()
        self.note(f"{name} ends")

    def wait_for(self, count: int) -> None:
        eventually(lambda: len(self.seen) >= count, f"{count} notes")


ENDS = ["inner", "middle", "outer", "second", "first"]
WHOLE = [f"{name} {what}" for name in ENDS for what in ("begins", "ends")]


def connect(client: TestClient, path: str) -> socket.socket:
    raw = socket.create_connection((client.host, client.port or 0), DEADLINE)
    raw.sendall(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
    return raw


def leave(client: TestClient, raw: socket.socket) -> None:
    """Close the connection, and return once the server has noticed."""
    raw.close()
    # Answered without a loop, on a connection that came after the end of the other.
    assert httpx.get(f"{client.base_url}/nowhere", timeout=DEADLINE).status_code == 404


def time_out(client: TestClient, raw: socket.socket) -> None:
    """Return once the time of the request is over and the server has said so."""
    assert raw.recv(4096).startswith(b"HTTP/1.1 504 ")
    raw.close()


def by_leaving() -> tuple[Traced, Callable[[TestClient, socket.socket], None]]:
    return Traced(), leave


def by_timeout() -> tuple[Traced, Callable[[TestClient, socket.socket], None]]:
    return Traced(request_timeout=0.2), time_out


WAYS = pytest.mark.parametrize("way", [by_leaving, by_timeout])


@WAYS
@pytest.mark.parametrize("path", ["/waits", "/holds", "/returns", "/fails"])
def test_every_teardown_runs_to_its_end(way: Any, path: str, caplog: pytest.LogCaptureFixture) -> None:
    traced, ends = way()
    with caplog.at_level(logging.WARNING), traced.client as client:
        raw = connect(client, path)
        # In the handler, in its last step, or in the first of the teardowns.
        assert traced.reached.wait(DEADLINE)
        ends(client, raw)
        traced.release.set()
        for count in range(len(ENDS)):
            traced.wait_for(2 * count + 1)
            assert client.post("/open").status_code == 204
        traced.wait_for(len(WHOLE))
        assert traced.seen == WHOLE
        # The loop serves on, and nothing is left on the Task.
        again = threading.Thread(target=client.get, args=("/returns",))
        again.start()
        for count in range(len(ENDS), 2 * len(ENDS)):
            traced.wait_for(2 * count + 1)
            assert client.post("/open").status_code == 204
        again.join(DEADLINE)
        assert traced.seen == [*WHOLE, *WHOLE]
    assert caplog.text == "", "nothing is logged"


@pytest.mark.parametrize("at", range(1, len(ENDS)))
def test_a_teardown_further_out_runs_to_its_end(at: int) -> None:
    """The client leaves while the teardown number `at` waits, those before it being done."""
    traced = Traced()
    with traced.client as client:
        raw = connect(client, "/returns")
        for count in range(at):
            traced.wait_for(2 * count + 1)
            assert client.post("/open").status_code == 204
        traced.wait_for(2 * at + 1)
        leave(client, raw)
        for count in range(at, len(ENDS)):
            traced.wait_for(2 * count + 1)
            assert client.post("/open").status_code == 204
        traced.wait_for(len(WHOLE))
    assert traced.seen == WHOLE


def test_the_grace_of_a_stop_bounds_a_teardown() -> None:
    traced = Traced(shutdown_grace=0.2)
    with traced.client as client:
        raw = connect(client, "/returns")
        assert traced.reached.wait(DEADLINE)
        raw.close()
    # Leaving the block waited for the end of the server, though nobody opened a gate.
    assert traced.seen[0] == "inner begins"
    assert [note for note in traced.seen if note.endswith("ends")] == []


def test_the_teardown_of_a_blocking_handler_waits_for_its_thread() -> None:
    """What a dependency gave is in use until the handler has ended, which no cancellation can hasten."""
    app = App()
    seen: list[str] = []
    made: list[int] = []
    began, release = threading.Event(), threading.Event()

    def resource() -> Iterator[None]:
        made.append(1)
        try:
            yield
        finally:
            seen.append("taken down")

    @app.get("/", blocking=True)
    def handler(one: None = Depends(resource)) -> None:
        began.set()
        release.wait(DEADLINE)
        seen.append("handler ends")

    with TestClient(app, workers=1, io_threads=1, blocking_threads=1) as client:
        raw = connect(client, "/")
        assert began.wait(DEADLINE)
        waiting = connect(client, "/")  # for the only thread: it never runs
        eventually(lambda: len(made) == 2, "both have what they depend on")
        leave(client, waiting)
        eventually(lambda: seen == ["taken down"], "the one that waited ended at once")
        leave(client, raw)
        assert client.get("/nowhere").status_code == 404
        release.set()
        eventually(lambda: len(seen) == 3, "the other ended")
    assert seen == ["taken down", "handler ends", "taken down"]


def test_middleware_that_calls_on_again_finds_that_the_client_has_left() -> None:
    app = App()
    seen: list[str] = []
    gate, reached = asyncio.Event(), threading.Event()

    @app.middleware
    async def twice(request: Request, call_next: Next) -> object:
        reply = await call_next(request)
        if request.path == "/twice":
            reached.set()
            await gate.wait()
            try:
                return await call_next(request)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
        return reply

    @app.get("/twice")
    async def handler() -> str:
        seen.append("handler")
        return "done"

    @app.post("/open")
    async def open_gate() -> None:
        gate.set()

    with TestClient(app, workers=1, io_threads=1) as client:
        raw = connect(client, "/twice")
        assert reached.wait(DEADLINE)
        leave(client, raw)
        assert client.post("/open").status_code == 204
        eventually(lambda: len(seen) == 2, "it called on")
    assert seen == ["handler", "cancelled"]
