"""The access log (api.md 16.6): a line for every request that was looked up, when its response ends."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import pytest

from oxbrook import CORS, App, File, HTTPError, Reply, Request, Response, Stream
from oxbrook._logging import access_middleware
from oxbrook.testing import TestClient
from tests.support import DEADLINE, Command, eventually

Next = Callable[[Request], Awaitable[Reply]]


class Written(logging.Handler):
    """Every record of the access log, while it is in place."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def lines(self) -> list[str]:
        return [record.getMessage() for record in self.records]


@pytest.fixture
def written() -> Iterator[Written]:
    logger = logging.getLogger("oxbrook.access")
    handler = Written()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


async def passes(request: Request, call_next: Next) -> Reply:
    return await call_next(request)


async def mended(request: Request, error: KeyError) -> Response:
    return Response("mended", 409)


async def breaks(request: Request, error: LookupError) -> Response:
    raise RuntimeError("the handler of an exception")


def make(directory: Path) -> App:
    app = App(access_log=True, cors=CORS(["https://example.com"]))
    (directory / "ox.txt").write_text("ox")
    (directory / "large.bin").write_bytes(bytes(3_000_000))
    app.static("/static", directory)

    @app.get("/items/{number}")
    async def item(number: int) -> int:
        return number

    @app.get("/later")
    async def later() -> str:
        await asyncio.sleep(0.001)
        return "later"

    @app.get("/blocking", blocking=True)
    def blocking() -> str:
        return "blocking"

    @app.post("/size", max_body=10)
    async def size(request: Request) -> int:
        return len(request.body)

    @app.get("/error")
    async def error() -> None:
        raise HTTPError(500, "on purpose")

    @app.get("/broken")
    async def broken() -> None:
        raise ValueError

    @app.get("/broken-later")
    async def broken_later() -> None:
        await asyncio.sleep(0.001)
        raise ValueError

    @app.get("/broken-blocking", blocking=True)
    def broken_blocking() -> None:
        raise ValueError

    @app.get("/bad-header")
    async def bad_header() -> Response:
        return Response("", headers={"x-a": "a\r\nb"})

    @app.get("/stream")
    async def stream() -> Stream:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(3):
                yield b"piece"
                await asyncio.sleep(0.001)

        return Stream(pieces())

    @app.get("/broken-stream")
    async def broken_stream() -> Stream:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"piece"
            raise ValueError

        return Stream(pieces())

    @app.get("/file")
    async def file() -> File:
        return File(directory / "ox.txt")

    @app.get("/large")
    async def large() -> File:
        return File(directory / "large.bin")

    return app


REQUESTS = {
    "GET /items/3?x=%41&y": 200,
    "HEAD /items/3": 200,
    "OPTIONS /items/3": 405,
    "GET /items/x": 422,
    "GET /nowhere?a=b": 404,
    "DELETE /items/3": 405,
    "GET /later": 200,
    "GET /blocking": 200,
    "GET /error": 500,
    "GET /broken": 500,
    "GET /broken-later": 500,
    "GET /broken-blocking": 500,
    "GET /bad-header": 500,
    "GET /stream": 200,
    "HEAD /stream": 200,
    "GET /file": 200,
    "GET /large": 200,
    "GET /static/ox.txt": 200,
    "GET /static/large.bin": 200,
    "GET /static/none": 404,
}
UNHANDLED = ("/broken", "/broken-later", "/broken-blocking", "/bad-header")


@pytest.mark.parametrize("is_composed", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_every_answer_has_its_line_with_the_target_as_sent_whoever_gave_it(
    written: Written, tmp_path: Path, workers: int, is_composed: bool
) -> None:
    app = make(tmp_path)
    if is_composed:
        app.middleware(passes)
    with TestClient(app, workers=workers) as client:
        for line, status in REQUESTS.items():
            method, target = line.split(" ")
            assert client.request(method, target).status_code == status, line
        assert client.post("/size", content=bytes(11)).status_code == 413
        with pytest.raises(httpx.RemoteProtocolError):
            client.get("/broken-stream")
    # Stopping wrote what was waiting.
    expected = [f"{line} {status}" for line, status in REQUESTS.items()]
    assert written.lines == [*expected, "POST /size 413", "GET /broken-stream 200"]
    for record in written.records:
        method, path, number = record.getMessage().split(" ")
        extras = vars(record)
        assert (extras["method"], extras["path"], extras["status"]) == (method, path, int(number))
        assert isinstance(extras["duration_ms"], float)
        assert 0 <= extras["duration_ms"] < DEADLINE * 1000
        is_unhandled = path in UNHANDLED
        assert record.levelno == (logging.WARNING if is_unhandled else logging.INFO), path


def test_an_exception_handler_that_answers_is_no_failure_and_one_that_raises_is(
    written: Written, tmp_path: Path
) -> None:
    app = App(access_log=True)
    app.exception_handler(KeyError)(mended)
    app.exception_handler(IndexError)(breaks)

    @app.get("/key")
    async def key() -> None:
        raise KeyError

    @app.get("/index")
    async def index() -> None:
        raise IndexError

    with TestClient(app) as client:
        assert client.get("/key").status_code == 409
        assert client.get("/index").status_code == 500
    assert [(record.levelname, record.getMessage()) for record in written.records] == [
        ("INFO", "GET /key 409"),
        ("WARNING", "GET /index 500"),
    ]


def test_preflights_and_what_is_no_request_have_no_line(written: Written, tmp_path: Path) -> None:
    with TestClient(make(tmp_path)) as client:
        asked = {"origin": "https://example.com", "access-control-request-method": "GET"}
        assert client.options("/items/3", headers=asked).status_code == 204
        with socket.create_connection((client.host, client.port), DEADLINE) as raw:
            raw.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert raw.recv(100).startswith(b"HTTP/1.1 400")
        client.get("/later")
    assert written.lines == ["GET /later 200"]


def test_pipelined_requests_have_a_line_each_in_order(written: Written, tmp_path: Path) -> None:
    with (
        TestClient(make(tmp_path)) as client,
        socket.create_connection((client.host, client.port), DEADLINE) as raw,
    ):
        heads = [f"GET /items/{number} HTTP/1.1\r\nHost: a\r\n" for number in range(20)]
        raw.sendall(("\r\n".join(heads) + "Connection: close\r\n\r\n").encode())
        while raw.recv(65536):
            pass
    assert written.lines == [f"GET /items/{number} 200" for number in range(20)]


def test_a_client_that_leaves_has_a_line_with_what_it_got(written: Written) -> None:
    app = App(access_log=True)
    began = threading.Event()

    @app.get("/wait")
    async def wait() -> None:
        began.set()
        await asyncio.Event().wait()

    @app.get("/endless")
    async def endless() -> Stream:
        async def pieces() -> AsyncIterator[bytes]:
            while True:
                yield b"piece"
                await asyncio.sleep(0.001)

        return Stream(pieces())

    with TestClient(app) as client:
        with socket.create_connection((client.host, client.port), DEADLINE) as raw:
            raw.sendall(b"GET /wait?now HTTP/1.1\r\nHost: a\r\n\r\n")
            assert began.wait(DEADLINE)
        eventually(lambda: written.lines == ["GET /wait?now 499"], "there was no answer to it")
        with client.stream("GET", "/endless") as response:
            next(response.iter_raw())
        eventually(lambda: written.lines[1:] == ["GET /endless 200"], "the answer had begun")


def test_timeouts_and_overload_have_their_lines(written: Written) -> None:
    app = App(access_log=True)

    @app.get("/")
    async def wait() -> None:
        await asyncio.sleep(DEADLINE)

    with TestClient(app, request_timeout=0.05) as client:
        assert client.get("/").status_code == 504
    assert written.lines == ["GET / 504"]


def test_nothing_is_written_unless_the_app_says_so(written: Written) -> None:
    app = App()
    assert not app.access_log

    @app.get("/")
    async def hello() -> str:
        return "hello"

    with TestClient(app) as client:
        client.get("/")
    assert written.lines == []


def test_a_handler_of_the_log_that_raises_or_is_slow_costs_no_answer(
    written: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    app = App(access_log=True)
    may_write = threading.Event()

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            may_write.wait(DEADLINE)
            raise ValueError("this handler is broken")

    slow = Slow()
    logger = logging.getLogger("oxbrook.access")
    logger.addHandler(slow)

    @app.get("/")
    async def hello() -> str:
        return "hello"

    try:
        with TestClient(app) as client:
            for _ in range(50):
                assert client.get("/").text == "hello"
            assert len(written.lines) <= 1
            may_write.set()
            eventually(lambda: len(written.lines) == 50, "the others were written")
        shown = capsys.readouterr().err
        assert shown.startswith("oxbrook: a logging handler of oxbrook.access raised\nTraceback")
        assert shown.count("ValueError: this handler is broken") == 1
    finally:
        may_write.set()
        logger.removeHandler(slow)


SOURCE = """
    from oxbrook import App

    app = App({options})

    @app.get("/")
    async def hello():
        return "hello"
"""


@pytest.mark.parametrize(
    ("options", "arguments", "environ", "is_logged"),
    [
        ("", ["--access-log"], {}, True),
        ("", [], {"OXBROOK_ACCESS_LOG": "on"}, True),
        ("access_log=True", [], {}, True),
        ("access_log=True", [], {"OXBROOK_ACCESS_LOG": "off"}, False),
        ("", [], {}, False),
        ("", ["--access-log"], {"OXBROOK_ACCESS_LOG": "off"}, True),
        ("", ["--access-log", "--log-level", "warning"], {}, False),
    ],
)
def test_the_command_writes_lines_to_stderr(
    serve: Callable[..., Command],
    options: str,
    arguments: list[str],
    environ: dict[str, str],
    is_logged: bool,
) -> None:
    server = serve(SOURCE.replace("{options}", options), *arguments, environ=environ)
    assert httpx.get(f"{server.url}/?a=b", timeout=DEADLINE).text == "hello"
    assert server.stop() == 0
    assert server.err.lines == (["INFO oxbrook.access: GET /?a=b 200"] if is_logged else [])


def test_a_log_that_nobody_reads_delays_no_answer_and_no_end(write: Callable[[str, str], Path]) -> None:
    """The pipe at stderr is full: the thread that writes hangs in it for ever."""
    script = write("main.py", textwrap.dedent(SOURCE.replace("{options}", "access_log=True")))
    command = [sys.executable, "-m", "oxbrook", "run", "main:app", "--port", "0"]
    with subprocess.Popen(
        command, cwd=script.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline()
            url = server.stdout.readline().split()[-1]
            with httpx.Client(base_url=url, timeout=DEADLINE) as client:
                for _ in range(1_000):
                    assert client.get("/?" + "x" * 200).text == "hello"
            server.terminate()
            assert server.wait(DEADLINE) == 0
        finally:
            server.kill()


def test_lines_as_json(serve: Callable[..., Command]) -> None:
    source = SOURCE.replace("{options}", "access_log=True").replace("import App", "import App, json_logging")
    server = serve(source + "    json_logging()\n")
    httpx.get(f"{server.url}/", timeout=DEADLINE)
    assert server.stop() == 0
    members = json.loads(server.err.text)
    assert list(members) == ["time", "level", "logger", "message", "method", "path", "status", "duration_ms"]


def test_the_middleware_that_older_programs_import_writes_the_same_lines(written: Written) -> None:
    app = App()
    app.middleware(access_middleware)

    @app.get("/made", status=201)
    async def made() -> Response:
        return Response("made", 201)

    @app.get("/broken")
    async def broken() -> None:
        raise ValueError

    with TestClient(app) as client:
        client.get("/made?a=b")
        client.get("/broken")
    assert written.lines == ["GET /made?a=b 201", "GET /broken 500"]
    assert [record.levelname for record in written.records] == ["INFO", "WARNING"]
