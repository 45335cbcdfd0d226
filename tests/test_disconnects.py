"""Clients that leave, stall or take nothing: noticed within about a second, at a bounded cost."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.support import DEADLINE, Command, eventually

APP = """
    import asyncio
    import os
    import threading

    from oxbrook import App, Stream

    app = App()
    seen = []
    PIECE = b"x" * 65536

    @app.get("/wait")
    async def wait():
        seen.append("began")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            seen.append("finally")

    @app.get("/unhurried", cancel_on_disconnect=False)
    async def unhurried():
        seen.append("began")
        await asyncio.sleep(1)
        seen.append("ended")

    @app.get("/endless")
    async def endless():
        async def source():
            seen.append("began")
            try:
                while True:
                    yield PIECE
            finally:
                seen.append("closed")
        return Stream(source())

    @app.get("/ticks")
    async def ticks():
        async def source():
            seen.append("began")
            try:
                while True:
                    yield b"tick"
                    await asyncio.sleep(0.05)
            finally:
                seen.append("closed")
        return Stream(source())

    @app.get("/big")
    async def big():
        async def source():
            for _ in range(1600):
                yield PIECE
        return Stream(source())

    @app.get("/seen")
    async def report():
        return seen

    @app.get("/pid")
    async def pid():
        return os.getpid()
"""


@pytest.fixture
def server(serve: Callable[..., Command]) -> Command:
    return serve(APP, "--write-timeout", "1")


def open_socket(server: Command, path: str) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    client = socket.create_connection((host, int(port)), timeout=DEADLINE)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
    return client


def seen(server: Command) -> list[str]:
    answer: list[str] = httpx.get(f"{server.url}/seen", timeout=DEADLINE).json()
    return answer


def test_r16_a_handler_is_cancelled_when_its_client_leaves(server: Command) -> None:
    client = open_socket(server, "/wait")
    eventually(lambda: seen(server) == ["began"], "the handler began")
    left = time.monotonic()
    client.close()
    eventually(lambda: seen(server) == ["began", "cancelled", "finally"], "the handler was cancelled")
    assert time.monotonic() - left < 10, "at once, not when the handler ends"
    assert server.stop() == 0
    assert server.err.text == "", "nothing is logged"


def test_r16_a_client_that_shuts_its_side_counts_as_gone(server: Command) -> None:
    client = open_socket(server, "/wait")
    eventually(lambda: seen(server) == ["began"], "the handler began")
    client.shutdown(socket.SHUT_WR)
    assert client.recv(1) == b"", "closed, without an answer"
    eventually(lambda: seen(server) == ["began", "cancelled", "finally"], "the handler was cancelled")
    client.close()


def test_an_answer_that_needs_no_handler_reaches_a_client_that_shut_its_side(server: Command) -> None:
    for _ in range(20):
        with open_socket(server, "/nothing") as client:
            client.shutdown(socket.SHUT_WR)
            assert client.makefile("rb").readline() == b"HTTP/1.1 404 Not Found\r\n"


def test_r16_a_handler_that_asks_for_it_runs_to_its_end(server: Command) -> None:
    client = open_socket(server, "/unhurried")
    eventually(lambda: seen(server) == ["began"], "the handler began")
    client.close()
    eventually(lambda: seen(server) == ["began", "ended"], "the handler ended")


@pytest.mark.parametrize("path", ["/ticks", "/endless"])
def test_r16_the_source_of_a_stream_is_closed_when_its_client_leaves(server: Command, path: str) -> None:
    client = open_socket(server, path)
    assert client.recv(16).startswith(b"HTTP/1.1 200 OK")
    client.close()
    eventually(lambda: seen(server) == ["began", "closed"], "the source was closed")
    assert server.stop() == 0
    assert server.err.text == "", "nothing is logged"


def rss(pid: int) -> int:
    """Resident bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_r19_a_stream_to_a_slow_client_takes_a_bounded_piece_of_memory(server: Command) -> None:
    pid = httpx.get(f"{server.url}/pid", timeout=DEADLINE).json()
    before = rss(pid)
    highest = before
    taken = 0
    with open_socket(server, "/big") as client:
        while taken < 1600 * 65536:
            piece = client.recv(1 << 20)
            assert piece, "the stream is whole"
            taken += len(piece)
            highest = max(highest, rss(pid))
    assert highest - before < 8 << 20


def test_r19_a_client_that_takes_nothing_is_closed_and_costs_nobody_else(server: Command) -> None:
    stalled = open_socket(server, "/endless")
    eventually(lambda: seen(server) == ["began", "closed"], "the source of the stalled client was closed")
    assert httpx.get(f"{server.url}/pid", timeout=DEADLINE).status_code == 200
    stalled.close()


def test_r34_shared_objects_bear_many_threads() -> None:
    """Every object of ours that threads may share: no exception, and what is counted is exact."""
    import oxbrook
    from oxbrook import _core

    request = _core.Request(
        "GET", "/p", "q=1", b"body", [("X-A", "1"), ("Cookie", "a=b; c=d")], None, None, "127.0.0.1"
    )
    thread_count = 500
    failures: list[BaseException] = []
    starting = threading.Barrier(thread_count)

    def use(number: int) -> None:
        try:
            starting.wait(DEADLINE)
            for turn in range(1000):
                assert request.header("x-a") == "1"
                assert request.headers["cookie"] == "a=b; c=d"
                assert request.cookies == {"a": "b", "c": "d"}
                request.locals[f"{number}-{turn % 10}"] = turn
                assert _core.encode_json({"n": turn}) == b'{"n":%d}' % turn
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(thread_count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(request.locals) == thread_count * 10
    assert oxbrook.__version__
