"""What a handler may return or raise, as a client gets it (api.md 5.1, 5.2, 6), and its `Request` (3)."""

import json
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum

import httpx
import pytest

from oxbrook import App, HTTPError, Request, Response, Stream
from oxbrook.testing import TestClient

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
BINARY = "application/octet-stream"
PROBLEM = "application/problem+json"
INTERNAL = b'{"type":"about:blank","title":"Internal Server Error","status":500}'


@dataclass
class Point:
    x: int


class Name(StrEnum):
    ADA = "ada"


class Text(str):
    pass


class Page(Response):
    """A subclass as an app may write one."""

    def __init__(self, text: str) -> None:
        Response.__init__(self, text, content_type="text/html; charset=utf-8")


async def chunks() -> AsyncIterator[bytes | str]:
    yield b"a"
    yield "é"


def numbers() -> Iterator[int]:
    yield from (1, 2)


# name -> value, status, content type, body
RETURNS: dict[str, tuple[object, int, str | None, bytes]] = {
    "none": (None, 204, "text/plain", b""),
    "str": ("héllo", 200, TEXT, "héllo".encode()),
    "str-ascii": ("x" * 100, 200, TEXT, b"x" * 100),
    "str-wide": ("中🦀", 200, TEXT, "中🦀".encode()),
    "str-empty": ("", 200, TEXT, b""),
    "str-subclass": (Text("t"), 200, TEXT, b"t"),
    "str-enum": (Name.ADA, 200, TEXT, b"ada"),
    "bytes": (b"\x00\xff", 200, BINARY, b"\x00\xff"),
    "bytearray": (bytearray(b"ab"), 200, BINARY, b"ab"),
    "memoryview": (memoryview(b"abcd")[::2], 200, BINARY, b"ac"),
    "dict": ({"a": [1, None, "é"]}, 200, JSON, '{"a":[1,null,"é"]}'.encode()),
    "list": ([1, 2.5, True], 200, JSON, b"[1,2.5,true]"),
    "tuple": ((1,), 200, JSON, b"[1]"),
    "int": (7, 200, JSON, b"7"),
    "false": (False, 200, JSON, b"false"),
    "nan": (float("nan"), 200, JSON, b"null"),
    "dataclass": (Point(1), 200, JSON, b'{"x":1}'),
    "datetime": (datetime(2026, 1, 2, tzinfo=UTC), 200, JSON, b'"2026-01-02T00:00:00Z"'),
    "decimal": (Decimal("12.50"), 200, JSON, b'"12.50"'),
    "response": (Response(), 200, JSON, b""),
    "response-text": (
        Response("é", 201, "text/html; charset=utf-8"),
        201,
        "text/html; charset=utf-8",
        b"\xc3\xa9",
    ),
    "response-view": (Response(memoryview(b"xy"), 200, "a/b"), 200, "a/b", b"xy"),
    "response-no-type": (Response(b"x", content_type=None), 200, None, b"x"),
    "response-own-type": (Response(b"x", headers={"content-Type": "a/c"}), 200, "a/c", b"x"),
    "response-subclass": (Page("<p>"), 200, "text/html; charset=utf-8", b"<p>"),
    "response-204": (Response(b"dropped", 204), 204, JSON, b""),
    "response-205": (Response(b"dropped", 205), 205, JSON, b""),
    "response-304": (Response(b"dropped", 304), 304, JSON, b""),
    "response-503": (Response(b"later", 503, "text/plain"), 503, "text/plain", b"later"),
}

# name -> value whose answer is a plain 500, and what the log says of it
REFUSED: dict[str, tuple[object, str]] = {
    "object": (object(), "a value of type builtins.object"),
    "deep-object": ({"a": [object()]}, "a value of type builtins.object"),
    "surrogate": ("\ud800", "surrogates not allowed"),
    "surrogate-json": (["\ud800"], "surrogates not allowed"),
    "bytes-json": ([b"\xff"], "can't decode byte"),
    "body": (Response({"a": 1}), "a response body is bytes or str, not dict"),  # type: ignore[arg-type]
    "body-none": (Response(None), "a response body is bytes or str, not NoneType"),  # type: ignore[arg-type]
    "status": (Response(b"", 99), "status 99"),
    "status-600": (Response(b"", 600), "status 600"),
    "status-text": (Response(b"", "200"), "TypeError"),  # type: ignore[arg-type]
}

# name -> headers that HTTP forbids
BAD_HEADERS: dict[str, dict[object, object]] = {
    "line-break": {"X": "a\r\nSet-Cookie: b=c"},
    "lf": {"X": "a\nb"},
    "nul": {"X": "\0"},
    "name-space": {"a b": "c"},
    "name-empty": {"": "c"},
    "name-colon": {"a:": "c"},
    "name-line": {"a\r\nb": "c"},
    "name-wide": {"é": "c"},
    "beyond-latin1": {"X": "中"},
    "not-text": {"X": 1},
    "name-not-text": {1: "x"},
    "one-of-a-list": {"X": ["fine", "bad\n"]},
    "content-type": {"Content-Type": "a\r\nb"},
    "length": {"Content-Length": "many"},
    "two-lengths": {"Content-Length": ["3", "4"]},
    "two-lengths-two-names": {"Content-Length": "3", "content-length": "4"},
}


def build() -> App:
    app = App()

    def constant(path: str, value: object, status: int = 200) -> None:
        @app.get(path, status=status)
        async def handler() -> object:
            return value

    for name, (value, *_) in RETURNS.items():
        constant(f"/returns/{name}", value)
        constant(f"/accepted/{name}", value, 202)
    for name, (value, _) in REFUSED.items():
        constant(f"/refused/{name}", value)
    for name, bad in BAD_HEADERS.items():
        constant(f"/header/{name}", Response(b"never", headers=bad))  # type: ignore[arg-type]
    constant("/content-type", Response(b"never", content_type="a\r\nb"))

    @app.get("/generator")
    async def generator() -> object:
        return numbers()

    @app.get("/headers")
    async def headers() -> Response:
        fields: dict[str, str | list[str] | tuple[str, ...]] = {
            "X-One": "1",
            "X-Many": ["a", "b"],
            "X-Pair": ("c", "d"),
            "X-Latin": "é",
        }
        return Response(b"x", headers=fields).set_cookie("n", "v", same_site=None).delete_cookie("o")

    @app.get("/stream")
    async def stream() -> Stream:
        return Stream(chunks(), status=201, content_type="text/plain; charset=utf-8", headers={"X": "y"})

    @app.get("/stream-length")
    async def stream_length() -> Stream:
        return Stream(chunks(), headers={"Content-Length": "3"})

    @app.get("/stream-bad")
    async def stream_bad() -> Stream:
        return Stream(chunks(), headers={"X": "a\nb"})

    @app.get("/http-error")
    async def http_error() -> None:
        headers = {"WWW-Authenticate": ["Basic", "Bearer"]}
        raise HTTPError(401, "who are you", headers, extensions={"hint": "log in"})

    @app.get("/crash")
    async def crash() -> None:
        raise ZeroDivisionError("secret")

    @app.get("/inline-crash", inline=True)
    def inline_crash() -> None:
        raise ZeroDivisionError("secret")

    @app.get("/blocking-crash", blocking=True)
    def blocking_crash() -> None:
        raise ZeroDivisionError("secret")

    @app.route("POST", "/echo/{name}")
    async def echo(request: Request, name: str) -> object:
        request.locals["seen"] = request.path
        assert request.body is request.body
        return {
            "method": request.method,
            "path": request.path,
            "query": request.query,
            "body": request.body,
            "name": name,
            "header": request.header("X-A", "none"),
            "headers": {key: value for key, value in request.headers.items() if key.startswith("x-")},
            "cookies": request.cookies,
            "client": request.client,
            "locals": request.locals,
            "app": request.app is app,
            "state": dict(request.state or {}),
            "repr": repr(request),
        }

    @app.get("/query")
    async def query(request: Request) -> object:
        return {"query": request.query}

    return app


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(build()) as client:
        yield client


@pytest.mark.parametrize("name", RETURNS)
def test_a_returned_value_has_the_status_type_and_body_of_its_row(client: TestClient, name: str) -> None:
    _, status, content_type, body = RETURNS[name]
    response = client.get(f"/returns/{name}")
    assert (response.status_code, response.content) == (status, body)
    assert response.headers.get("content-type") == content_type
    if status not in (204, 304):
        assert response.headers["content-length"] == str(len(body))
    else:
        assert "transfer-encoding" not in response.headers
    assert "date" in response.headers
    assert "server" not in response.headers


@pytest.mark.parametrize("name", [name for name in RETURNS if not name.startswith("response")])
def test_a_routes_status_stands_for_200(client: TestClient, name: str) -> None:
    response = client.get(f"/accepted/{name}")
    assert (response.status_code, response.content) == (202, RETURNS[name][3])


def test_a_response_keeps_its_own_status_on_a_route_with_another(client: TestClient) -> None:
    assert client.get("/accepted/response").status_code == 200
    assert client.get("/accepted/response-204").status_code == 204


def test_a_generator_is_an_array(client: TestClient) -> None:
    response = client.get("/generator")
    assert (response.headers["content-type"], response.content) == (JSON, b"[1,2]")


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_cannot_be_sent_is_a_logged_500(
    client: TestClient, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    response = client.get(f"/refused/{name}")
    assert (response.status_code, response.content) == (500, INTERNAL)
    assert response.headers["content-type"] == PROBLEM
    (record,) = [record for record in caplog.records if record.name == "oxbrook"]
    assert record.levelno == logging.ERROR
    assert REFUSED[name][1] in caplog.text
    assert (record.__dict__["method"], record.__dict__["path"]) == ("GET", f"/refused/{name}")


@pytest.mark.parametrize(
    "path", [*(f"/header/{name}" for name in BAD_HEADERS), "/content-type", "/stream-bad"]
)
def test_a_header_that_http_forbids_is_a_logged_500_and_nothing_of_it_is_sent(
    client: TestClient, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    response = client.get(path)
    assert response.status_code == 500
    assert response.json() == {
        "type": "about:blank",
        "title": "Internal Server Error",
        "status": 500,
        "detail": "bad response header",
    }
    assert not {"x", "set-cookie"} & set(response.headers)
    (record,) = [record for record in caplog.records if record.name == "oxbrook"]
    assert "bad response header" in record.getMessage()


def test_each_item_of_a_list_is_a_header_of_its_own(client: TestClient) -> None:
    response = client.get("/headers")
    assert response.headers.get_list("x-one") == ["1"]
    assert response.headers.get_list("x-many") == ["a", "b"]
    assert response.headers.get_list("x-pair") == ["c", "d"]
    assert response.headers["x-latin"] == "é"
    assert response.headers.get_list("set-cookie") == [
        "n=v; Path=/; HttpOnly; Secure",
        "o=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure",
    ]


def test_a_stream_is_sent_chunk_by_chunk(client: TestClient) -> None:
    response = client.get("/stream")
    assert (response.status_code, response.content) == (201, b"a\xc3\xa9")
    assert response.headers["content-type"] == TEXT
    assert response.headers["transfer-encoding"] == "chunked"
    assert response.headers["x"] == "y"


def test_a_stream_may_declare_its_length(client: TestClient) -> None:
    response = client.get("/stream-length")
    assert response.content == b"a\xc3\xa9"
    assert response.headers["content-length"] == "3"
    assert "transfer-encoding" not in response.headers


def test_an_http_error_is_the_reply(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    response = client.get("/http-error")
    assert response.status_code == 401
    assert response.headers["content-type"] == PROBLEM
    assert response.headers.get_list("www-authenticate") == ["Basic", "Bearer"]
    assert response.content == (
        b'{"type":"about:blank","title":"Unauthorized","status":401,"detail":"who are you","hint":"log in"}'
    )
    assert [record for record in caplog.records if record.name == "oxbrook"] == []


@pytest.mark.parametrize("path", ["/crash", "/inline-crash", "/blocking-crash"])
def test_an_unhandled_exception_is_logged_once_and_its_text_stays_here(
    client: TestClient, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    response = client.get(path)
    assert (response.status_code, response.content) == (500, INTERNAL)
    (record,) = [record for record in caplog.records if record.name == "oxbrook"]
    assert record.levelno == logging.ERROR
    assert (record.__dict__["method"], record.__dict__["path"]) == ("GET", path)
    assert "ZeroDivisionError: secret" in caplog.text
    assert "Traceback" in caplog.text


def test_debug_shows_the_text_of_that_app_alone() -> None:
    apps = [App(debug=True), App()]
    for app in apps:

        @app.get("/crash")
        async def crash() -> None:
            raise ZeroDivisionError("why")

    with TestClient(apps[0]) as loud, TestClient(apps[1]) as quiet:
        assert loud.get("/crash").json()["detail"] == "ZeroDivisionError: why"
        assert "detail" not in quiet.get("/crash").json()


def test_a_request_shows_what_was_sent(client: TestClient) -> None:
    response = client.post(
        "/echo/a%2Fb?x=1&y=%20",
        content=b"body",
        headers=[("X-A", "1"), ("x-a", "2"), ("X-B", "3"), ("Cookie", "c=1; d = 2;e"), ("Cookie", "c=3")],
    )
    assert response.json() == {
        "method": "POST",
        "path": "/echo/a%2Fb",
        "query": "x=1&y=%20",
        "body": "body",
        "name": "a/b",
        "header": "1",
        "headers": {"x-a": "1, 2", "x-b": "3"},
        "cookies": {"c": "3", "d": "2"},
        "client": "127.0.0.1",
        "locals": {"seen": "/echo/a%2Fb"},
        "app": True,
        "state": {},
        "repr": "<Request POST /echo/a%2Fb>",
    }


@pytest.mark.parametrize(("target", "query"), [("/query", None), ("/query?", ""), ("/query?a", "a")])
def test_a_query_is_none_only_without_a_question_mark(
    client: TestClient, target: str, query: str | None
) -> None:
    # By hand: a client library would leave an empty query out.
    with socket.create_connection((client.host, client.port)) as raw:
        raw.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(4096), b""))
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"query": query}


def test_a_header_value_that_is_not_text_counts_as_absent(client: TestClient) -> None:
    headers = httpx.Headers([(b"X-A", b"\xc3\xa9"), (b"X-C", b"ok")])
    response = client.post("/echo/n", headers=headers)
    assert (response.json()["header"], response.json()["headers"]) == ("none", {"x-c": "ok"})
