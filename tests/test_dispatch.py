"""Requests reach loops and come back: each to its own client, slots released, kinds kept."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from oxbrook import App, Request, Stream
from oxbrook.testing import TestClient
from tests.support import DEADLINE, eventually

COUNTS = [1, 2]


def exchange(port: int, requests: bytes, answers: int) -> list[bytes]:
    """Send bytes on one connection and return that many bodies, each told by its Content-Length."""
    bodies: list[bytes] = []
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(requests)
        received = b""
        while len(bodies) < answers:
            head, found, rest = received.partition(b"\r\n\r\n")
            length = 0
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            if found and len(rest) >= length:
                bodies.append(rest[:length])
                received = rest[length:]
                continue
            piece = connection.recv(65536)
            assert piece, f"closed after {len(bodies)} answers"
            received += piece
    return bodies


def get(path: str, *, close: bool = False) -> bytes:
    connection = "Connection: close\r\n" if close else ""
    return f"GET {path} HTTP/1.1\r\nHost: test\r\n{connection}\r\n".encode()


@pytest.mark.parametrize("loops", COUNTS)
def test_invariant_5_every_request_is_answered_with_its_own_token(loops: int) -> None:
    app = App()

    @app.get("/now/{token}")
    async def now(token: str) -> str:
        return token

    @app.get("/later/{token}")
    async def later(token: str) -> str:
        await asyncio.sleep(0)
        return token

    @app.get("/blocking/{token}", blocking=True)
    def blocking(token: str) -> str:
        return token

    @app.get("/inline/{token}", inline=True)
    def inline(token: str) -> str:
        return token

    kinds = ("now", "later", "blocking", "inline")
    with TestClient(app, workers=loops) as client:

        def connection(number: int) -> list[bytes]:
            paths = [f"/{kinds[(number + turn) % 4]}/{number}-{turn}" for turn in range(40)]
            return exchange(client.port, b"".join(map(get, paths)), len(paths))

        with ThreadPoolExecutor(32) as pool:
            for number, bodies in enumerate(pool.map(connection, range(64))):
                assert bodies == [f"{number}-{turn}".encode() for turn in range(40)]


def test_invariant_4_slots_are_free_after_every_way_a_request_can_end() -> None:
    """Two slots and many times as many requests of each kind: one slot that is lost would show as a 503."""
    app = App()

    @app.get("/returns")
    async def returns() -> str:
        return "returned"

    @app.get("/raises")
    async def raises() -> str:
        await asyncio.sleep(0)
        raise RuntimeError("raised")

    @app.get("/waits")
    async def waits() -> None:
        await asyncio.sleep(30)

    @app.get("/streams")
    async def streams() -> Stream:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"one"
            raise RuntimeError("broken")

        return Stream(pieces())

    @app.get("/blocks", blocking=True)
    def blocks() -> str:
        raise RuntimeError("raised")

    logging.getLogger("oxbrook").setLevel(logging.CRITICAL)
    try:
        with TestClient(app, workers=1, max_concurrency=2, request_timeout=0.2) as client:
            for _ in range(4):
                assert client.get("/raises").status_code == 500
                assert client.get("/blocks").status_code == 500
                assert client.get("/waits").status_code == 504
                with socket.create_connection(("127.0.0.1", client.port)) as leaving:
                    leaving.sendall(get("/waits"))
                with socket.create_connection(("127.0.0.1", client.port)) as reader:
                    # Where both slots are still taken this is a 503, whose connection would be kept.
                    reader.sendall(get("/streams", close=True))
                    while reader.recv(4096):
                        pass
                eventually(lambda: client.get("/returns").status_code == 200, "a slot is free")
            eventually(
                lambda: [client.get("/returns").status_code for _ in range(4)] == [200] * 4,
                "all slots are free",
            )
    finally:
        logging.getLogger("oxbrook").setLevel(logging.NOTSET)


def test_a_client_that_leaves_cancels_its_handler_and_nothing_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = App()
    started, cleaned, finished = threading.Event(), threading.Event(), threading.Event()

    @app.get("/waits")
    async def waits() -> None:
        started.set()
        try:
            await asyncio.sleep(30)
        finally:
            cleaned.set()

    @app.get("/stays", cancel_on_disconnect=False)
    async def stays() -> None:
        started.set()
        await asyncio.sleep(0.2)
        finished.set()

    with TestClient(app, workers=1) as client:
        for path, event in (("/waits", cleaned), ("/stays", finished)):
            started.clear()
            with socket.create_connection(("127.0.0.1", client.port)) as connection:
                connection.sendall(get(path))
                assert started.wait(10)
            assert event.wait(10), path
    assert not caplog.records


def test_a_timeout_answers_504_and_cancels(caplog: pytest.LogCaptureFixture) -> None:
    app = App()
    cleaned = threading.Event()

    @app.get("/")
    async def waits() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            cleaned.set()

    with TestClient(app, workers=1, request_timeout=0.1) as client:
        answer = client.get("/")
        assert (answer.status_code, answer.json()["detail"]) == (504, "handler did not respond in time")
        assert cleaned.wait(10)
    assert not caplog.records


def test_blocking_handlers_run_on_named_threads_and_inline_ones_on_the_loop() -> None:
    app = App()

    @app.get("/blocking", blocking=True)
    def blocking() -> str:
        return threading.current_thread().name

    @app.get("/inline", inline=True)
    def inline(request: Request) -> str:
        return f"{threading.current_thread().name} {asyncio.get_running_loop() is not None} {request.path}"

    @app.get("/awaitable", inline=True)
    def awaitable() -> object:
        return asyncio.sleep(0)

    with TestClient(app, workers=1) as client:
        assert client.get("/inline").text == "oxbrook-worker-0 True /inline"
        names = [thread.name for thread in threading.enumerate()]
        assert not any(name.startswith("oxbrook-blocking") for name in names)
        assert client.get("/blocking").text.startswith("oxbrook-blocking")
        logging.getLogger("oxbrook").setLevel(logging.CRITICAL)
        assert client.get("/awaitable").status_code == 500
        logging.getLogger("oxbrook").setLevel(logging.NOTSET)


def test_a_stream_waits_for_its_reader_and_is_closed_when_the_reader_leaves() -> None:
    app = App()
    given, closed = [0], threading.Event()

    @app.get("/")
    async def stream() -> Stream:
        async def pieces() -> AsyncIterator[bytes]:
            try:
                while True:
                    given[0] += 65536
                    yield b"x" * 65536
            finally:
                closed.set()

        return Stream(pieces())

    with TestClient(app, workers=1) as client:
        with socket.create_connection(("127.0.0.1", client.port)) as connection:
            connection.sendall(get("/"))
            assert connection.recv(1024)
            before = -1
            while before != given[0]:  # until the source is not asked any more
                before = given[0]
                time.sleep(0.2)
            assert given[0] < 32 * 1024 * 1024
        assert closed.wait(10)


def test_a_stream_of_a_blocking_handler_is_sent_on_its_loop() -> None:
    app = App()

    @app.get("/", blocking=True)
    def stream() -> Stream:
        async def pieces() -> AsyncIterator[str]:
            yield threading.current_thread().name
            await asyncio.sleep(0.001)
            yield " end"

        return Stream(pieces())

    with TestClient(app, workers=1) as client:
        assert [client.get("/").text for _ in range(3)] == ["oxbrook-worker-0 end"] * 3


def test_invariant_12_no_finished_answer_waits_for_a_slower_handler_behind_it() -> None:
    app = App()
    entered, opened, arrived = threading.Event(), threading.Event(), threading.Event()

    @app.get("/gate")
    async def gate() -> bool:
        entered.set()
        return opened.wait(DEADLINE)

    @app.get("/first")
    async def first() -> str:
        return "first"

    @app.get("/second")
    async def second() -> bool:
        # Holds the loop until the client has the first answer: held back with this one's, it never comes.
        return arrived.wait(DEADLINE / 2)

    with TestClient(app, workers=1) as client, ThreadPoolExecutor(3) as pool:

        def ask(path: str) -> str:
            with httpx.Client(base_url=client.base_url, timeout=DEADLINE) as own:
                return own.get(path).text

        gated = pool.submit(ask, "/gate")
        assert entered.wait(DEADLINE)
        # Time for each to be queued behind the gate, in this order, so that one drain takes them.
        one = pool.submit(ask, "/first")
        time.sleep(0.5)
        other = pool.submit(ask, "/second")
        time.sleep(0.5)
        opened.set()
        assert one.result(DEADLINE) == "first"
        arrived.set()
        assert (gated.result(DEADLINE), other.result(DEADLINE)) == ("true", "true")


@pytest.mark.parametrize("loops", COUNTS)
def test_full_loops_refuse_with_503_and_every_other_request_is_answered(loops: int) -> None:
    app = App()

    @app.get("/{token}")
    async def waits(token: str) -> str:
        await asyncio.sleep(0.02)
        return token

    with TestClient(app, workers=loops, max_concurrency=2) as client, ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(client.get, [f"/{number}" for number in range(200)]))
    for number, answer in enumerate(answers):
        if answer.status_code == 503:
            assert answer.json()["detail"] == "server overloaded"
            assert answer.headers["retry-after"] == "1"
        else:
            assert answer.text == str(number)
    assert {answer.status_code for answer in answers} == {200, 503}


SERVES_THREE_TIMES = """
import os, signal, threading, time
from oxbrook import App

app = App()

@app.get("/")
async def hello() -> str:
    return "hello"

before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
for number in (signal.SIGINT, signal.SIGTERM, None):
    server = app.build_server("127.0.0.1", 0, 1, 16, 1024, 5, 5, 16, 16777216)

    def stop(server=server, number=number):
        server.wait_started()
        if number is None:
            server.shutdown()
        else:
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=stop)
    thread.start()
    server.serve()
    thread.join()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert signal.set_wakeup_fd(-1) == -1
    assert threading.active_count() == 1, threading.enumerate()
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_server_serves_three_times_and_puts_the_signals_back(tmp_path: Path) -> None:
    script = tmp_path / "three.py"
    script.write_text(SERVES_THREE_TIMES)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr


def test_nothing_is_installed_when_serving_on_another_thread() -> None:
    app = App()
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with TestClient(app):
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_starting_and_stopping_under_load_loses_no_thread() -> None:
    app = App()

    @app.get("/")
    async def hello() -> str:
        await asyncio.sleep(0)
        return "hello"

    before = threading.active_count()
    for _ in range(20):
        with TestClient(app, workers=2) as client:
            port, is_over = client.port, threading.Event()

            def load(port: int = port, is_over: threading.Event = is_over) -> None:
                while not is_over.is_set():
                    try:
                        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                            connection.sendall(get("/") * 4)
                            connection.recv(65536)
                    except OSError:
                        pass

            threads = [threading.Thread(target=load) for _ in range(4)]
            for thread in threads:
                thread.start()
            assert client.get("/").text == "hello"
        is_over.set()
        for thread in threads:
            thread.join()
    assert threading.active_count() == before


def test_a_stop_waits_for_what_is_in_flight_and_the_grace_ends_it(capfd: pytest.CaptureFixture[str]) -> None:
    app = App()
    started = threading.Event()

    @app.get("/short")
    async def short() -> str:
        started.set()
        await asyncio.sleep(0.3)
        return "finished"

    @app.get("/long")
    async def long() -> str:
        started.set()
        await asyncio.sleep(30)
        return "never"

    with ThreadPoolExecutor(1) as pool:
        client = TestClient(app, workers=1).start()
        answer = pool.submit(exchange, client.port, get("/short"), 1)
        assert started.wait(10)
        client.stop()
        assert answer.result() == [b"finished"]

        started.clear()
        client = TestClient(app, workers=1, shutdown_grace=0.2).start()
        cut = pool.submit(client.http.get, "/long")
        assert started.wait(10)
        begin = time.monotonic()
        server = client._server
        assert server is not None
        server.shutdown()
        assert cut.result().status_code == 503
        client.stop()
        assert time.monotonic() - begin < 5
    text = capfd.readouterr().err
    assert "oxbrook: shutdown grace expired with 1 request(s) still in flight" in text
