"""Bodies that are read while they arrive: `BodyStream`, `request.read()`, limits, clients that leave."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from pydantic import BaseModel

from oxbrook import App, BodyStream, Form, Header, HTTPError, Reply, Request, Stream
from oxbrook.testing import TestClient
from tests.support import DEADLINE, Command, eventually

EARLY = "request body ended early"


class Model(BaseModel):
    name: str


class Watched:
    """An app, and what its handlers saw."""

    def __init__(self) -> None:
        self.app = App()
        self.seen: list[object] = []
        self.background: set[asyncio.Task[None]] = set()
        app, seen = self.app, self.seen

        @app.post("/count")
        async def count(body: BodyStream) -> dict[str, int]:
            size = pieces = 0
            async for piece in body:
                assert type(piece) is bytes
                assert piece
                size += len(piece)
                pieces += 1
            assert await body.read() == b""
            assert [piece async for piece in body] == []
            return {"size": size, "pieces": pieces}

        @app.post("/rest/{n}")
        async def rest(n: int, request: Request, body: BodyStream) -> bytes:
            assert request.stream() is body
            first = await anext(body)
            return b"%d|%d|%b" % (n, len(first), await body.read())

        @app.post("/echo")
        async def echo(body: BodyStream) -> Stream:
            return Stream(body)

        @app.post("/refuse")
        async def refuse(body: BodyStream) -> None:
            raise HTTPError(403, "not you")

        @app.post("/ignore")
        async def ignore(body: BodyStream) -> str:
            return "unread"

        @app.post("/read")
        async def read(request: Request, body: BodyStream) -> list[object]:
            try:
                early = request.body.decode()
            except RuntimeError as error:
                early = str(error)
            whole = await request.read()
            assert whole is await request.read()
            assert whole == request.body
            again = [piece async for piece in request.stream()]
            return [early, whole.decode(), [piece.decode() for piece in again]]

        @app.post("/partly")
        async def partly(request: Request, body: BodyStream) -> str:
            await anext(body)
            try:
                await request.read()
            except RuntimeError as error:
                return str(error)
            return "read"

        @app.post("/collected")
        async def collected(request: Request) -> list[object]:
            stream = request.stream()
            pieces = [piece.decode() async for piece in stream]
            return [pieces, (await stream.read()).decode(), (await request.read()).decode()]

        @app.post("/form")
        async def form(request: Request, body: BodyStream) -> object:
            with pytest.raises(RuntimeError, match=r"await request\.read\(\)"):
                request.form()
            await request.read()
            return request.form().multi_items()

        @app.post("/small", max_body=10)
        async def small(body: BodyStream) -> int:
            return len(await body.read())

        @app.post("/again")
        async def again(body: BodyStream) -> list[object]:
            found: list[object] = []
            for _ in range(2):
                try:
                    await body.read()
                except HTTPError as error:
                    found.append([error.status, error.detail])
            seen.append(found)
            return found

        @app.post("/wait")
        async def wait(body: BodyStream) -> None:
            seen.append("began")
            try:
                await anext(body)
                await asyncio.sleep(DEADLINE)
            finally:
                seen.append("finally")

        @app.post("/stubborn", cancel_on_disconnect=False)
        async def stubborn(body: BodyStream) -> None:
            seen.append("began")
            await asyncio.sleep(1)
            try:
                await body.read()
            except HTTPError as error:
                seen.append(error.detail)

        @app.post("/later")
        async def later(body: BodyStream) -> str:
            first = await anext(body)

            async def go_on() -> None:
                try:
                    await body.read()
                except HTTPError as error:
                    seen.append([error.status, error.detail])

            task = asyncio.create_task(go_on())
            self.background.add(task)
            task.add_done_callback(self.background.discard)
            await asyncio.sleep(0)
            return first.decode()

        @app.post("/two")
        async def two(body: BodyStream) -> str:
            first = asyncio.create_task(body.read())
            await asyncio.sleep(0)
            try:
                await body.read()
            except RuntimeError as error:
                seen.append("refused")
                await first
                return str(error)
            return "both read"

        @app.get("/seen")
        async def report() -> list[object]:
            return seen

        @app.middleware
        async def signing(request: Request, call_next: Callable[[Request], Awaitable[Reply]]) -> Reply:
            if request.header("x-sign") is None:
                return await call_next(request)
            size = len(await request.read())
            reply = await call_next(request)
            reply.headers = {"x-size": str(size)}
            return reply


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def client(watched: Watched) -> Iterator[TestClient]:
    with TestClient(watched.app, timeout=DEADLINE) as running:
        yield running


def pieces(*parts: bytes) -> Iterator[bytes]:
    """A body that httpx sends chunked."""
    yield from parts


class Raw:
    """A client that speaks raw bytes."""

    def __init__(self, client: TestClient) -> None:
        self.socket = socket.create_connection((client.host, client.port), timeout=DEADLINE)
        self.reader = self.socket.makefile("rb")

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.close()
        self.socket.close()

    def post(self, path: str, length: int, *headers: str) -> None:
        lines = [f"POST {path} HTTP/1.1", "Host: test", f"Content-Length: {length}", *headers, "", ""]
        self.socket.sendall("\r\n".join(lines).encode())

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        status = int(self.reader.readline().split()[1])
        headers = {}
        while line := self.reader.readline().strip():
            name, _, value = line.decode().partition(": ")
            headers[name.lower()] = value
        return status, headers, self.reader.read(int(headers.get("content-length", "0")))


def test_a_body_is_read_as_it_arrives(client: TestClient) -> None:
    data = os.urandom(3_000_000)
    for content in (data, pieces(data[:1_000_000], data[1_000_000:])):
        answer = client.post("/count", content=content).json()
        assert answer["size"] == len(data)
        assert answer["pieces"] > 1
    assert client.post("/count").json() == {"size": 0, "pieces": 0}
    with Raw(client) as raw:
        raw.post("/rest/7", 6)
        raw.socket.sendall(b"a")
        raw.socket.sendall(b"bcdef")
        status, _, body = raw.answer()
        number, first, rest = body.split(b"|")
        assert (status, number, int(first) + len(rest)) == (200, b"7", 6)
        assert b"abcdef".endswith(rest)


def test_a_body_goes_straight_back(client: TestClient) -> None:
    data = os.urandom(2_000_000)
    assert client.post("/echo", content=pieces(data[:7], data[7:])).content == data


def test_r10_a_client_is_told_to_go_on_when_its_body_is_asked_for(client: TestClient) -> None:
    expect = "Expect: 100-continue"
    with Raw(client) as raw:
        raw.post("/count", 2_000_000, expect)
        assert raw.answer()[0] == 100
        raw.socket.sendall(b"x" * 2_000_000)
        assert raw.answer()[0] == 200
        # Answered without reading: its status at once, no 100, and the body is not awaited.
        raw.post("/refuse", 2_000_000, expect)
        status, headers, _ = raw.answer()
        assert (status, headers["connection"]) == (403, "close")
        assert raw.reader.read() == b""


def test_r11_a_client_gets_the_status_of_a_body_that_nobody_read(client: TestClient) -> None:
    for path, status in (("/ignore", 200), ("/refuse", 403), ("/small", 413)):
        with Raw(client) as raw:
            raw.post(path, 5_000_000)
            sender = threading.Thread(target=offer, args=(raw.socket, b"x" * 5_000_000))
            sender.start()
            assert raw.answer()[0] == status
            sender.join()
        assert client.get("/seen").status_code == 200


def offer(to: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # the server may close: that is its right
        to.sendall(data)


def test_the_whole_body_is_there_once_it_was_read(client: TestClient) -> None:
    early, whole, again = client.post("/read", content=b"moo").json()
    assert "await request.read()" in early
    assert (whole, again) == ("moo", ["moo"])
    # There was nothing to wait for.
    assert client.post("/read").json() == ["", "", []]
    text = client.post("/partly", content=b"moo").text
    assert text == "the body was begun to be read as a stream: what was read is not there any more"
    assert client.post("/collected", content=b"moo").json() == [["moo"], "", "moo"]
    assert client.post("/collected").json() == [[], "", ""]
    assert client.post("/form", data={"a": "1"}).json() == [["a", "1"]]


def test_what_a_middleware_read_is_there_for_the_handler(client: TestClient) -> None:
    answer = client.post("/count", content=b"moo", headers={"X-Sign": "1"})
    assert (answer.json(), answer.headers["x-size"]) == ({"size": 3, "pieces": 1}, "3")


def test_a_body_over_its_limit_is_413(client: TestClient) -> None:
    detail = "request body larger than 10 bytes"
    for content in (b"x" * 11, pieces(b"x" * 6, b"x" * 5)):
        answer = client.post("/small", content=content)
        assert (answer.status_code, answer.json()["detail"]) == (413, detail)
    assert client.post("/small", content=pieces(b"x" * 10)).json() == 10
    with Raw(client) as raw:
        # Declared: at once, and nobody is told to send it.
        raw.post("/small", 11, "Expect: 100-continue")
        assert raw.answer()[0] == 413


def test_every_later_read_fails_like_the_first(watched: Watched, client: TestClient) -> None:
    with Raw(client) as raw:
        raw.post("/again", 10)
        raw.socket.sendall(b"hello")
        raw.socket.shutdown(socket.SHUT_WR)
        assert raw.answer()[0] == 200
    assert watched.seen == [[[400, EARLY], [400, EARLY]]]


def test_a_body_that_ends_early_is_400(client: TestClient) -> None:
    for sent in (b"", b"hello"):
        with Raw(client) as raw:
            raw.post("/count", 10)
            raw.socket.sendall(sent)
            raw.socket.shutdown(socket.SHUT_WR)
            status, headers, body = raw.answer()
            assert (status, headers["connection"]) == (400, "close")
            assert EARLY.encode() in body
    with Raw(client) as raw:
        raw.socket.sendall(
            b"POST /count HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n"
        )
        status, headers, body = raw.answer()
        assert (status, headers["connection"]) == (400, "close")
        assert b'"detail":"bad body"' in body


@pytest.mark.parametrize("options", [{"body_timeout": 0.2}, {"request_timeout": 0.2}])
def test_a_silent_client_is_408(watched: Watched, options: dict[str, Any]) -> None:
    with TestClient(watched.app, **options) as client, Raw(client) as raw:
        raw.post("/count", 10)
        raw.socket.sendall(b"hello")
        status, headers, body = raw.answer()
        assert (status, headers["connection"]) == (408, "close")
        assert b'"detail":"request body stalled"' in body


def test_a_handler_that_stalls_is_504_and_one_that_waits_for_its_client_is_not(watched: Watched) -> None:
    with TestClient(watched.app, request_timeout=0.6) as client, Raw(client) as raw:
        raw.post("/wait", 2)
        eventually(lambda: watched.seen == ["began"], "the handler began")
        raw.socket.sendall(b"x")
        assert raw.answer()[0] == 504
        eventually(lambda: watched.seen == ["began", "finally"], "the handler was cancelled")
    watched.seen.clear()
    with TestClient(watched.app, request_timeout=0.6) as client, Raw(client) as raw:
        raw.post("/count", 5)
        for byte in b"hello":
            # In sum more than the timeout, and never silent for so long.
            time.sleep(0.2)
            raw.socket.sendall(bytes([byte]))
        assert raw.answer()[0] == 200


def test_r16_a_client_that_leaves_cancels_a_handler_that_does_not_read_on(
    watched: Watched, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with Raw(client) as raw:
        raw.post("/wait", 10)
        raw.socket.sendall(b"hello")
        eventually(lambda: watched.seen == ["began"], "the handler began")
    eventually(lambda: watched.seen == ["began", "finally"], "the handler was cancelled")
    assert caplog.records == []


def test_a_handler_that_asks_for_it_runs_on_and_finds_its_body_cut(
    watched: Watched, client: TestClient
) -> None:
    with Raw(client) as raw:
        raw.post("/stubborn", 10)
        raw.socket.sendall(b"hello")
        eventually(lambda: watched.seen == ["began"], "the handler began")
    eventually(lambda: watched.seen == ["began", EARLY], "the handler read on")


def test_reading_after_the_answer_fails(watched: Watched, client: TestClient) -> None:
    with Raw(client) as raw:
        raw.post("/later", 10)
        raw.socket.sendall(b"hello")
        assert raw.answer()[0] == 200
        eventually(lambda: watched.seen == [[400, EARLY]], "the task that reads on was told")
        # The rest is read away, and the next request is found behind it.
        raw.socket.sendall(b"world")
        raw.post("/count", 1)
        raw.socket.sendall(b"x")
        assert raw.answer()[2] == b'{"size":1,"pieces":1}'


def test_two_tasks_cannot_read_one_body_at_once(watched: Watched, client: TestClient) -> None:
    with Raw(client) as raw:
        raw.post("/two", 5)
        eventually(lambda: watched.seen == ["refused"], "the second reader was refused")
        raw.socket.sendall(b"hello")
        assert b"being read already" in raw.answer()[2]


def test_a_body_made_by_hand_is_one_piece() -> None:
    async def read() -> None:
        request = Request("POST", body=b"moo")
        assert await request.read() == b"moo"
        assert [piece async for piece in request.stream()] == [b"moo"]
        assert [piece async for piece in Request().stream()] == []
        body = BodyStream(b"moo")
        assert aiter(body) is body
        assert (await body.read(), await body.read()) == (b"moo", b"")

    asyncio.run(read())


def test_a_bad_declaration_raises_where_it_is_made() -> None:
    app = App()

    async def twice(one: BodyStream, other: BodyStream) -> None: ...
    async def beside_model(one: BodyStream, other: Model) -> None: ...
    async def beside_form(one: BodyStream, other: Model = Form()) -> None: ...
    async def marked(one: Annotated[BodyStream, Header]) -> None: ...
    async def optional(one: BodyStream | None) -> None: ...
    def plain(one: BodyStream) -> None: ...

    cases: list[tuple[Any, dict[str, Any], str]] = [
        (twice, {}, "two bodies"),
        (beside_model, {}, "two bodies"),
        (beside_form, {}, "two bodies"),
        (marked, {}, "Header cannot stand on a body"),
        (optional, {}, "BodyStream"),
        (plain, {"blocking": True}, "BodyStream"),
        (plain, {"inline": True}, "BodyStream"),
    ]
    for fn, options, text in cases:
        with pytest.raises(TypeError, match=text) as raised:
            app.post("/x", **options)(fn)
        assert "test_bodies.py:" in str(raised.value), fn.__name__
    assert app.routes == []


def test_a_stream_is_found_by_the_last_name_of_an_annotation() -> None:
    app = App()

    async def handler(one: "unknown.BodyStream") -> int:  # type: ignore[name-defined]  # noqa: F821, UP037
        return len(await one.read())

    app.post("/x")(handler)
    assert inspect.iscoroutinefunction(handler)
    with TestClient(app) as client:
        assert client.post("/x", content=b"moo").json() == 3


def test_the_document_shows_a_stream_as_octets(watched: Watched) -> None:
    operation = watched.app.openapi()["paths"]["/count"]["post"]
    binary = {"schema": {"type": "string", "format": "binary"}}
    assert operation["requestBody"] == {"content": {"application/octet-stream": binary}}
    assert "422" not in operation["responses"]


MEMORY_APP = """
    import asyncio
    from pathlib import Path

    from oxbrook import App, BodyStream

    app = App()

    def rss():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    @app.post("/slow", max_body=1 << 40)
    async def slow(body: BodyStream):
        before = highest = rss()
        size = count = 0
        async for piece in body:
            size += len(piece)
            count += 1
            if count % 16 == 0:
                # The client is faster than this: what it sends has to wait on its side.
                await asyncio.sleep(0.002)
                highest = max(highest, rss())
        return {"size": size, "grown": highest - before}
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_a_large_upload_to_a_slow_reader_takes_a_bounded_piece_of_memory(
    serve: Callable[..., Command],
) -> None:
    server = serve(MEMORY_APP)
    block = b"x" * (1 << 20)

    def upload(count: int) -> dict[str, int]:
        content = (block for _ in range(count))
        answer: dict[str, int] = httpx.post(f"{server.url}/slow", content=content, timeout=DEADLINE).json()
        return answer

    assert upload(2)["size"] == 2 << 20
    found = upload(200)
    assert found["size"] == 200 << 20
    assert found["grown"] <= 4 << 20
