"""`Request` of api.md 3, made by hand."""

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from oxbrook import Request
from oxbrook._core import Context
from oxbrook._state import State


def state_of(request: Any) -> object:
    """`state`, whose type leaves out the None of a request made by hand."""
    return request.state


def test_the_defaults_of_a_request_made_by_hand() -> None:
    request = Request()
    assert (request.method, request.path, request.query, request.body) == ("GET", "/", None, b"")
    assert (request.headers, request.cookies, request.locals) == ({}, {}, {})
    assert (request.client, request.app) == (None, None)
    assert state_of(request) is None
    assert repr(request) == "<Request GET />"


def test_what_is_given_is_given_back() -> None:
    request = Request("post", "/a%20b", "x=1&y", bytearray(b"body"), [("X-A", "1")], client="::1")
    assert (request.method, request.path, request.query, request.body) == ("POST", "/a%20b", "x=1&y", b"body")
    assert (request.headers, request.client) == ({"x-a": "1"}, "::1")
    assert repr(request) == "<Request POST /a%20b>"


@pytest.mark.parametrize("client", ["", "localhost", "1.2.3", "1.2.3.4:80", "[::1]"])
def test_a_client_that_is_no_address_is_refused(client: str) -> None:
    with pytest.raises(ValueError, match="IP address"):
        Request(client=client)


def test_a_body_that_is_no_bytes_is_refused() -> None:
    with pytest.raises(TypeError, match="not str"):
        Request(body="text")  # type: ignore[arg-type]


def test_bad_headers_are_dropped_and_good_ones_kept() -> None:
    headers: list[object] = [
        ("Good", " 1 "),
        (b"bytes", b"2"),
        ("", "empty name"),
        ("a b", "space in the name"),
        ("a:", "colon"),
        ("line", "a\r\nb"),
        ("nul", "\0"),
        ("wide", "中"),
        ("n", 1),
        ("lone",),
        "text",
        None,
        ("tab", "a\tb"),
        ("latin", "é"),
    ]
    request = Request(headers=headers)  # type: ignore[arg-type]
    assert request.headers == {"good": "1", "bytes": "2", "tab": "a\tb"}
    assert request.header("latin", "absent") == "absent"


def test_header_gives_the_first_value_in_any_case() -> None:
    request = Request(headers=[("X-One", "1"), ("x-one", "2"), ("Bad", "é"), ("bad", "ok")])
    assert request.header("x-one") == request.header("X-ONE") == "1"
    assert request.header("none") is None
    assert request.header("none", default="d") == "d"
    # The first value decides: one that is not text counts as absent.
    assert request.header("bad", "d") == "d"


def test_headers_is_a_new_dict_with_repeats_joined() -> None:
    request = Request(headers=[("B", "1"), ("a", "x"), ("b", "2"), ("B", "3")])
    assert request.headers == {"b": "1, 2, 3", "a": "x"}
    assert list(request.headers) == ["b", "a"]
    assert request.headers is not request.headers


@pytest.mark.parametrize(
    ("lines", "cookies"),
    [
        (["a=1"], {"a": "1"}),
        (["a=1; b=2;c=3"], {"a": "1", "b": "2", "c": "3"}),
        ([" a = 1 ; b=x=y "], {"a": "1", "b": "x=y"}),
        (["a=1; skipped; b=2; ;"], {"a": "1", "b": "2"}),
        (["a=1; a=2"], {"a": "2"}),
        (["a=1", "b=2; a=3"], {"a": "3", "b": "2"}),
        (['a="q"; b=%20'], {"a": '"q"', "b": "%20"}),
        (["a="], {"a": ""}),
    ],
)
def test_cookies_are_split_and_not_decoded(lines: list[str], cookies: dict[str, str]) -> None:
    request = Request(headers=[("Cookie", line) for line in lines])
    assert request.cookies == cookies
    assert request.cookies is not request.cookies


def test_locals_is_the_same_dict_on_every_access() -> None:
    request = Request()
    request.locals["a"] = 1
    assert request.locals is request.locals
    assert request.locals == {"a": 1}
    mine: dict[str, object] = {}
    assert Request(locals=mine).locals is mine


def test_body_is_one_object() -> None:
    request = Request(body=b"x" * 1000)
    assert request.body is request.body


def test_a_context_brings_app_and_state() -> None:
    app, state = object(), State({"db": 1})
    request = Request(context=Context(app, state))
    assert request.app is app
    assert request.state is state


@pytest.mark.parametrize(
    "name",
    ["method", "path", "query", "body", "headers", "cookies", "client", "app", "state", "locals", "new"],
)
def test_a_request_cannot_be_changed(name: str) -> None:
    request = Request()
    with pytest.raises(AttributeError):
        setattr(request, name, "x")


def test_a_cycle_through_locals_is_collected() -> None:
    class Marker:
        pass

    marker = Marker()
    request = Request()
    request.locals["request"] = request
    request.locals["marker"] = marker
    gone = weakref.ref(marker)
    del request, marker
    gc.collect()
    assert gone() is None


def test_one_request_read_by_many_threads_gives_each_the_same() -> None:
    request = Request("POST", "/p", "q", b"b" * 64, [("A", "1"), ("Cookie", "c=2")])
    parts: list[Callable[[], object]] = [
        lambda: request.method,
        lambda: request.path,
        lambda: request.query,
        lambda: request.body,
        lambda: request.headers,
        lambda: request.cookies,
        lambda: request.header("a"),
        lambda: id(request.locals),
        lambda: repr(request),
    ]
    expected = [part() for part in parts]
    fresh = [Request() for _ in range(200)]
    seen: list[list[int]] = []
    errors: list[BaseException] = []
    start = threading.Barrier(8)

    def read() -> None:
        try:
            start.wait()
            seen.append([id(other.locals) for other in fresh])
            for _ in range(200):
                assert [part() for part in parts] == expected
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert all(ids == seen[0] for ids in seen)


def test_reading_leaves_no_reference_behind() -> None:
    app, state = object(), State({})
    before = (sys.getrefcount(app), sys.getrefcount(state))
    for _ in range(100):
        request = Request(context=Context(app, state), body=b"x")
        assert (request.app, request.state, request.body, request.locals) == (app, state, b"x", {})
    del request
    assert (sys.getrefcount(app), sys.getrefcount(state)) == before
