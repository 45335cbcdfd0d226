"""`request.after_response` (api.md 16.10), and row R17 of the field reports."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import socket
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import httpx
import pytest

from oxbrook import App, Depends, HTTPError, Reply, Request, Response, Stream
from oxbrook.testing import TestClient
from tests.support import DEADLINE, eventually

Next = Callable[[Request], Awaitable[Reply]]


def connect(client: TestClient, path: str) -> socket.socket:
    raw = socket.create_connection((client.host, client.port or 0), DEADLINE)
    raw.sendall(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
    return raw


def leave(client: TestClient, raw: socket.socket) -> None:
    """Close the connection, and return once the one I/O thread has noticed."""
    raw.close()
    assert httpx.get(f"{client.base_url}/nowhere", timeout=DEADLINE).status_code == 404


def test_work_runs_in_its_order_after_the_response_where_its_kind_runs() -> None:
    app = App()
    seen: list[object] = []
    number: ContextVar[int] = ContextVar("number", default=0)
    done = threading.Event()

    def place() -> str:
        return threading.current_thread().name.rpartition("-")[0]

    async def awaited(what: str, *, times: int = 1) -> None:
        for _ in range(times):
            await asyncio.sleep(0)
        seen.append((what, times, place(), number.get(), asyncio.current_task() is not None))

    def plain(what: str) -> None:
        seen.append((what, place(), number.get()))

    class Object:
        async def __call__(self) -> None:
            seen.append("object")

    @app.get("/async")
    async def handler(request: Request) -> str:
        number.set(7)
        request.after_response(awaited, "one", times=2)
        request.after_response(plain, "two")
        request.after_response(functools.partial(awaited, "three"))
        request.after_response(Object())
        request.after_response(nested, request)
        request.after_response(done.set)
        seen.append("handler")
        return "done"

    async def nested(request: Request) -> None:
        request.after_response(plain, "from within")
        request.after_response(done.set)
        done.clear()

    @app.get("/blocking", blocking=True)
    def blocking(request: Request) -> str:
        return handler_plain(request)

    @app.get("/inline", inline=True)
    def inline(request: Request) -> str:
        return handler_plain(request)

    def handler_plain(request: Request) -> str:
        number.set(7)
        request.after_response(awaited, "one", times=2)
        request.after_response(plain, "two")
        request.after_response(done.set)
        return "done"

    with TestClient(app, workers=1) as client:
        assert client.get("/async").text == "done"
        eventually(lambda: len(seen) == 6, "all work")
        assert seen == [
            "handler",
            ("one", 2, "oxbrook-worker", 7, True),
            ("two", "oxbrook-blocking", 7),
            ("three", 1, "oxbrook-worker", 7, True),
            "object",
            ("from within", "oxbrook-blocking", 7),
        ]
        for path in ("/blocking", "/inline"):
            seen.clear()
            done.clear()
            assert client.get(path).text == "done"
            assert done.wait(DEADLINE)
            assert seen == [("one", 2, "oxbrook-worker", 7, True), ("two", "oxbrook-blocking", 7)]


def test_the_response_is_out_before_work_begins() -> None:
    app = App()
    gate = threading.Event()

    @app.get("/{kind}")
    async def handler(kind: str, request: Request) -> object:
        request.after_response(gate.wait, DEADLINE)
        return Stream(pieces()) if kind == "stream" else kind

    async def pieces() -> AsyncIterator[str]:
        yield "str"
        yield "eam"

    with TestClient(app, workers=1) as client:
        for kind in ("whole", "stream"):
            gate.clear()
            assert client.get(f"/{kind}").text == kind
            gate.set()


def test_r17_work_goes_on_when_the_client_closes_right_after_its_answer() -> None:
    app = App()
    gate = asyncio.Semaphore(0)
    ended: list[str] = []

    @app.middleware
    async def passes(request: Request, call_next: Next) -> object:
        return await call_next(request)

    async def work(name: str) -> None:
        await gate.acquire()
        ended.append(name)

    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1024
            await asyncio.sleep(0)

    @app.get("/whole")
    async def whole(request: Request) -> str:
        request.after_response(work, "one")
        request.after_response(work, "two")
        return "done"

    @app.get("/stream")
    async def stream(request: Request) -> Stream:
        request.after_response(work, "one")
        request.after_response(work, "two")
        return Stream(pieces())

    @app.post("/open")
    async def open_gate() -> None:
        gate.release()

    with TestClient(app, workers=1, io_threads=1) as client:
        for path in ("/whole", "/stream"):
            ended.clear()
            raw = connect(client, path)
            assert raw.recv(4096).startswith(b"HTTP/1.1 200 OK")
            leave(client, raw)
            assert client.post("/open").status_code == 204
            eventually(lambda: ended == ["one"], f"the first of {path}")
            assert client.post("/open").status_code == 204
            eventually(lambda: ended == ["one", "two"], f"the second of {path}")


def test_a_failure_is_logged_and_the_rest_still_runs(caplog: pytest.LogCaptureFixture) -> None:
    app = App()
    done = threading.Event()

    async def breaks() -> None:
        raise ValueError("async work")

    def exits() -> None:
        raise SystemExit("plain work")

    def made() -> object:
        return breaks()

    async def cancelled() -> None:
        raise asyncio.CancelledError

    @app.get("/")
    async def handler(request: Request) -> str:
        works: list[Callable[[], object]] = [breaks, exits, cancelled, made, done.set]
        for work in works:
            request.after_response(work)
        return "done"

    with caplog.at_level(logging.ERROR), TestClient(app, workers=1) as client:
        assert client.get("/").text == "done"
        assert done.wait(DEADLINE)
        assert client.get("/").text == "done", "the loop goes on"
    logged = [record for record in caplog.records if record.name == "oxbrook.after"]
    assert len(logged) == 8
    texts = [record.getMessage() for record in logged[:3]]
    assert [text.startswith("GET /: ") and text.endswith("failed after the response") for text in texts] == [
        True
    ] * 3
    assert "breaks" in texts[0]
    kinds = [record.exc_info[0] for record in logged[:4] if record.exc_info]
    assert kinds == [ValueError, SystemExit, asyncio.CancelledError, TypeError]
    assert len(caplog.records) == 8


def test_nothing_runs_after_a_handler_that_raised(caplog: pytest.LogCaptureFixture) -> None:
    app = App()
    ran: list[str] = []

    class Known(Exception):
        pass

    @app.exception_handler(Known)
    async def on_known(request: Request, error: Known) -> Reply:
        return Reply("known", status=409)

    def fails_at_its_end() -> Any:
        yield
        raise Known

    @app.get("/raises/{what}")
    async def raises(what: str, request: Request) -> object:
        request.after_response(ran.append, what)
        if what == "http":
            raise HTTPError(418)
        if what == "known":
            raise Known
        if what == "other":
            raise ValueError
        return object()

    @app.get("/torn")
    async def torn(request: Request, one: None = Depends(fails_at_its_end)) -> str:
        request.after_response(ran.append, "torn")
        return "never seen"

    @app.get("/returns")
    async def returns(request: Request) -> Response:
        request.after_response(ran.append, "returned")
        return Response("no", status=500)

    plain = App()

    @plain.get("/raises/{what}")
    async def raises_plainly(what: str, request: Request) -> object:
        return await raises(what, request)

    with TestClient(app) as client, TestClient(plain) as bare:
        for one in (client, bare):
            expected = {"http": 418, "known": 409 if one is client else 500, "other": 500, "value": 500}
            for what, status in expected.items():
                assert one.get(f"/raises/{what}").status_code == status
        assert client.get("/torn").status_code == 409
        assert client.get("/returns").status_code == 500
        eventually(lambda: ran, "work after a returned error status")
    assert ran == ["returned"]


def test_a_retry_that_works_runs_its_own_work() -> None:
    app = App()
    ran: list[int] = []
    attempts: list[int] = []

    @app.middleware
    async def retries(request: Request, call_next: Next) -> object:
        try:
            return await call_next(request)
        except ZeroDivisionError:
            return await call_next(request)

    @app.get("/")
    async def handler(request: Request) -> str:
        attempts.append(1)
        request.after_response(ran.append, len(attempts))
        return str(1 // (len(attempts) - 1))

    with TestClient(app) as client:
        assert client.get("/").text == "1"
        eventually(lambda: ran, "work of the second")
    assert ran == [2]


def test_nothing_runs_after_a_handler_that_was_cancelled() -> None:
    app = App()
    seen: list[str] = []

    @app.get("/")
    async def handler(request: Request) -> None:
        request.after_response(seen.append, "work")
        try:
            seen.append("began")
            await asyncio.Event().wait()
        finally:
            seen.append("ended")

    with TestClient(app, workers=1) as client:
        raw = connect(client, "/")
        eventually(lambda: seen, "the handler began")
        raw.close()
        eventually(lambda: len(seen) == 2, "the handler ended")
    assert seen == ["began", "ended"]


def test_the_slot_is_held_until_all_is_done_and_no_timeout_applies() -> None:
    app = App()
    gate = threading.Event()
    ended = threading.Event()

    @app.get("/")
    async def handler(request: Request) -> str:
        request.after_response(gate.wait, DEADLINE)
        request.after_response(ended.set)
        return "done"

    @app.get("/waits")
    async def waits() -> None:
        await asyncio.Event().wait()

    with TestClient(app, workers=1, max_concurrency=2, request_timeout=0.2) as client:
        assert client.get("/").text == "done"
        # Its time is over later than that of the one above.
        assert client.get("/waits").status_code == 504
        # The client may have its 504 before the loop has heard of it.
        eventually(lambda: client.get("/").text == "done", "the other slot")
        full = client.get("/")
        assert (full.status_code, full.json()["detail"]) == (503, "server overloaded")
        gate.set()
        assert ended.wait(DEADLINE)
        eventually(lambda: client.get("/").status_code == 200, "the slots are free")


def test_a_shutdown_waits_within_the_grace(capfd: pytest.CaptureFixture[str]) -> None:
    app = App()
    ended: list[str] = []
    reached, gate = threading.Event(), threading.Event()

    async def waits_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cut")

    def plain() -> None:
        reached.set()
        gate.wait(DEADLINE)
        ended.append("plain")

    @app.get("/{what}")
    async def handler(what: str, request: Request) -> str:
        request.after_response(plain if what == "plain" else waits_for_ever)
        request.after_response(ended.append, "last")
        return "done"

    client = TestClient(app, workers=1).start()
    assert client.get("/plain").text == "done"
    assert reached.wait(DEADLINE)
    stopping = threading.Thread(target=client.stop)
    stopping.start()

    def refuses() -> bool:
        try:
            socket.create_connection((client.host, client.port or 0), DEADLINE).close()
        except ConnectionRefusedError:
            return True
        return False

    eventually(refuses, "the stop began")
    gate.set()
    stopping.join(DEADLINE)
    assert ended == ["plain", "last"]
    assert capfd.readouterr().err == ""
    ended.clear()
    with TestClient(app, workers=1, shutdown_grace=0.1) as client:
        assert client.get("/endless").text == "done"
    assert ended == ["cut"]
    assert "shutdown grace expired with 1 request(s) still in flight" in capfd.readouterr().err


def test_what_cannot_be_called_or_comes_too_late_is_refused() -> None:
    app = App()
    kept: list[Request] = []
    request = Request()
    with pytest.raises(TypeError, match="after_response takes a function, not int"):
        request.after_response(1)  # type: ignore[arg-type]

    @app.get("/")
    async def handler(request: Request) -> str:
        kept.append(request)
        return "done"

    with TestClient(app) as client:
        assert client.get("/").text == "done"
    with pytest.raises(RuntimeError, match="the response was sent"):
        kept[0].after_response(print)


def test_work_that_refers_to_its_own_request_is_collected() -> None:
    class Kept:
        def work(self, request: Request) -> None: ...

    kept = Kept()
    gone = weakref.ref(kept)
    request = Request(locals={"kept": kept})
    request.after_response(kept.work, request)
    del kept, request
    gc.collect()
    assert gone() is None
