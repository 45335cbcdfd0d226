"""CORS through a real socket: preflights, and the fields of every other answer (api.md 10.2, R37)."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from oxbrook import CORS, App, HTTPError, Response, Stream
from oxbrook.testing import TestClient

OURS = "https://app.example"
VARY = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers"

# Called with what a type checker would refuse.
make: Any = CORS


def an_app(cors: CORS | None) -> App:
    app = App(cors=cors)

    @app.get("/ok")
    async def ok() -> str:
        return "ok"

    @app.get("/items/{number}")
    async def item(number: int) -> int:
        return number

    @app.get("/broken")
    async def broken() -> None:
        raise ValueError("secret")

    @app.get("/refused")
    async def refused() -> None:
        raise HTTPError(403, "no")

    @app.get("/bad-header")
    async def bad_header() -> Response:
        return Response("", headers={"x": "a\nb"})

    @app.get("/own")
    async def own() -> Response:
        return Response("", headers={"Access-Control-Allow-Origin": "https://mine", "Vary": "Accept"})

    @app.get("/stream")
    async def stream() -> Stream:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"a"
            yield b"b"

        return Stream(pieces())

    @app.post("/small", max_body=10)
    async def small() -> None:
        return None

    return app


@pytest.fixture(scope="module")
def strict() -> Iterator[str]:
    rules = CORS(
        ["https://other.example", OURS],
        allow_methods=["GET", "PUT"],
        allow_headers=["X-Token"],
        allow_credentials=True,
        expose_headers=["X-Total", "X-Page"],
        max_age=60,
    )
    with TestClient(an_app(rules), request_timeout=10.0, body_timeout=0.5) as client:
        yield str(client.base_url)


@pytest.fixture(scope="module")
def open_to_all() -> Iterator[str]:
    with TestClient(an_app(CORS(["*"]))) as client:
        yield str(client.base_url)


def preflight(url: str, origin: str, method: str, headers: str | None = None) -> httpx.Response:
    fields = {"Origin": origin, "Access-Control-Request-Method": method}
    if headers is not None:
        fields["Access-Control-Request-Headers"] = headers
    return httpx.options(url, headers=fields)


def cors_fields(answer: httpx.Response) -> dict[str, str]:
    prefix = "access-control-"
    return {
        name.removeprefix(prefix): value for name, value in answer.headers.items() if name.startswith(prefix)
    }


def test_an_allowed_preflight_is_answered_for_any_path(strict: str) -> None:
    for path in ("/ok", "/nothing/here", "/items/x"):
        answer = preflight(strict + path, OURS, "PUT", "x-token")
        assert (answer.status_code, answer.content) == (204, b"")
        assert "content-length" not in answer.headers
        assert cors_fields(answer) == {
            "allow-origin": OURS,
            "allow-credentials": "true",
            "allow-methods": "GET, PUT",
            "allow-headers": "X-Token",
            "max-age": "60",
        }
        assert answer.headers["vary"] == VARY


def test_a_star_echoes_what_was_asked(open_to_all: str) -> None:
    answer = preflight(open_to_all + "/ok", "null", "DELETE", "x-a, x-b")
    assert answer.status_code == 204
    assert cors_fields(answer) == {
        "allow-origin": "*",
        "allow-methods": "DELETE",
        "allow-headers": "x-a, x-b",
        "max-age": "600",
    }
    assert answer.headers["vary"] == VARY
    assert "allow-headers" not in cors_fields(preflight(open_to_all + "/ok", OURS, "PUT"))


def test_max_age_none_says_nothing() -> None:
    with TestClient(an_app(CORS([OURS], max_age=None))) as client:
        answer = preflight(f"{client.base_url}/ok", OURS, "GET")
    assert answer.status_code == 204
    assert "max-age" not in cors_fields(answer)


@pytest.mark.parametrize(
    ("origin", "method", "headers", "detail"),
    [
        ("https://evil.example", "GET", None, "origin not allowed"),
        (OURS + ":444", "GET", None, "origin not allowed"),
        (OURS, "DELETE", None, "method not allowed"),
        (OURS, "PUT", "x-token, x-more", "header not allowed"),
    ],
)
def test_a_refused_preflight_says_what_is_not_allowed(
    strict: str, origin: str, method: str, headers: str | None, detail: str
) -> None:
    answer = preflight(strict + "/ok", origin, method, headers)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {"type": "about:blank", "title": "Bad Request", "status": 400, "detail": detail}
    assert cors_fields(answer) == {}


@pytest.mark.parametrize("fields", [{"Origin": OURS}, {"Access-Control-Request-Method": "GET"}])
def test_options_that_is_no_preflight_is_routed(strict: str, fields: dict[str, str]) -> None:
    answer = httpx.options(strict + "/ok", headers=fields)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


ANSWERS = {
    "GET /ok": 200,
    "HEAD /ok": 200,
    "GET /items/7": 200,
    "GET /stream": 200,
    "GET /items/x": 422,
    "GET /broken": 500,
    "GET /bad-header": 500,
    "GET /refused": 403,
    "GET /nothing": 404,
    "POST /ok": 405,
    "POST /small": 413,
    "GET /openapi.json": 200,
}


@pytest.mark.parametrize("asked", ANSWERS)
def test_r37_every_answer_carries_the_fields(strict: str, open_to_all: str, asked: str) -> None:
    method, path = asked.split()
    body = b"x" * 11 if method == "POST" else None

    def ask(url: str, headers: dict[str, str]) -> httpx.Response:
        answer = httpx.request(method, url + path, content=body, headers=headers)
        assert answer.status_code == ANSWERS[asked]
        return answer

    allowed = ask(strict, {"Origin": OURS})
    assert cors_fields(allowed) == {
        "allow-origin": OURS,
        "allow-credentials": "true",
        "expose-headers": "X-Total, X-Page",
    }
    assert allowed.headers["vary"] == "Origin"
    for headers in ({}, {"Origin": "https://evil.example"}):
        other = ask(strict, headers)
        assert cors_fields(other) == {}
        assert other.headers["vary"] == "Origin"
    anyone = ask(open_to_all, {"Origin": "https://evil.example"})
    assert cors_fields(anyone) == {"allow-origin": "*"}
    assert "vary" not in anyone.headers


def test_answers_given_in_the_middle_of_a_body_carry_them_too(strict: str) -> None:
    """A body that stalls (408) and one that breaks off (400) end the connection after their answer."""
    host, _, port = strict.removeprefix("http://").partition(":")
    for sent, status in (
        (b"Content-Length: 5\r\n\r\nab", b"408"),
        (b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
    ):
        with socket.create_connection((host, int(port)), timeout=10) as client:
            client.sendall(b"POST /small HTTP/1.1\r\nHost: a\r\nOrigin: " + OURS.encode() + b"\r\n" + sent)
            got = b""
            while piece := client.recv(65536):
                got += piece
        assert got.startswith(b"HTTP/1.1 " + status)
        assert b"\r\naccess-control-allow-origin: " + OURS.encode() + b"\r\n" in got
        assert b"\r\nvary: Origin\r\n" in got


def test_a_preflight_with_a_body_leaves_the_connection_usable(strict: str) -> None:
    with httpx.Client(base_url=strict) as client:
        fields = {"Origin": OURS, "Access-Control-Request-Method": "GET"}
        assert client.request("OPTIONS", "/ok", headers=fields, content=b"x" * 1000).status_code == 204
        assert client.get("/ok").text == "ok"


def test_a_field_the_handler_set_is_kept(strict: str) -> None:
    answer = httpx.get(strict + "/own", headers={"Origin": OURS})
    assert answer.headers.get_list("access-control-allow-origin") == ["https://mine"]
    assert answer.headers["access-control-allow-credentials"] == "true"
    assert answer.headers.get_list("vary") == ["Accept", "Origin"]


def test_overload_and_timeout_carry_them() -> None:
    import asyncio

    app = App(cors=CORS([OURS]))

    @app.get("/slow")
    async def slow() -> None:
        await asyncio.sleep(30)

    with TestClient(app, request_timeout=0.3) as client:
        answer = httpx.get(f"{client.base_url}/slow", headers={"Origin": OURS})
    assert answer.status_code == 504
    assert answer.headers["access-control-allow-origin"] == OURS


def test_without_rules_there_is_no_field_and_no_preflight() -> None:
    with TestClient(an_app(None)) as client:
        answer = httpx.get(f"{client.base_url}/ok", headers={"Origin": OURS})
        assert cors_fields(answer) == {}
        assert "vary" not in answer.headers
        assert preflight(f"{client.base_url}/ok", OURS, "GET").status_code == 405


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"allow_origins": OURS}, TypeError, "allow_origins must be a list"),
        ({"allow_origins": [OURS], "allow_methods": "GET"}, TypeError, "allow_methods must be a list"),
        ({"allow_origins": [1]}, TypeError, "allow_origins must hold strings"),
        ({"allow_origins": []}, ValueError, "allow_origins lists no origin"),
        ({"allow_origins": ["app.example"]}, ValueError, "is not an origin"),
        ({"allow_origins": [OURS + "/"]}, ValueError, "is not an origin"),
        ({"allow_origins": ["*"], "allow_credentials": True}, ValueError, "allow_credentials"),
        ({"allow_origins": [OURS], "max_age": -1}, ValueError, "max_age"),
        ({"allow_origins": [OURS], "max_age": 1.5}, TypeError, "max_age"),
        ({"allow_origins": [OURS], "allow_headers": ["a b"]}, ValueError, "allow_headers"),
        ({"allow_origins": [OURS], "expose_headers": ["a\r\nb"]}, ValueError, "expose_headers"),
    ],
)
def test_bad_rules_raise_when_they_are_made(
    arguments: dict[str, object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        make(**arguments)


def test_an_app_takes_rules_and_nothing_else() -> None:
    rules = CORS([OURS])
    assert App(cors=rules).cors is rules
    wrong: Any = {"allow_origins": [OURS]}
    with pytest.raises(TypeError, match="cors must be a CORS, not dict"):
        App(cors=wrong)
