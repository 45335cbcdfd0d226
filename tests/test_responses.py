"""`Response`, `Stream` and their cookies (api.md 5.2); what is sent of them is in test_returns.py."""

import copy
import dataclasses
import pickle
from collections.abc import AsyncIterator

import pytest

from oxbrook import Response, Stream


async def chunks() -> AsyncIterator[bytes]:
    yield b"x"


def test_the_defaults_of_a_response() -> None:
    response = Response()
    assert (response.body, response.status, response.content_type) == (b"", 200, "application/json")
    assert response.headers == {}
    assert response.header_list() is None
    assert response == Response(b"", 200, "application/json", {})


@pytest.mark.parametrize(
    ("body", "encoded"),
    [(b"b", b"b"), ("é", b"\xc3\xa9"), (bytearray(b"a"), b"a"), (memoryview(b"abc")[::2], b"ac"), ("", b"")],
)
def test_encoded_gives_the_bytes_of_the_body(
    body: bytes | str | bytearray | memoryview, encoded: bytes
) -> None:
    assert Response(body).encoded() == encoded


@pytest.mark.parametrize("body", [None, 1, {"a": 1}, [b"x"]])
def test_a_body_that_is_no_text_or_bytes_is_refused(body: object) -> None:
    with pytest.raises(TypeError, match="bytes or str"):
        Response(body).encoded()  # type: ignore[arg-type]


def test_header_list_gives_a_lists_items_apart() -> None:
    response = Response(headers={"A": "1", "B": ["2", "3"], "C": ("4",), "D": []})
    assert response.header_list() == [("A", "1"), ("B", "2"), ("B", "3"), ("C", "4")]


def test_answers_are_frozen() -> None:
    for answer in (Response(), Stream(chunks())):
        with pytest.raises(dataclasses.FrozenInstanceError):
            answer.status = 201  # type: ignore[misc]


def test_a_response_is_copied_and_pickled() -> None:
    response = Response("a", 201, None, {"X": ["1"]})
    assert copy.copy(response) == copy.deepcopy(response) == pickle.loads(pickle.dumps(response)) == response


def test_the_defaults_of_a_stream() -> None:
    source = chunks()
    stream = Stream(source)
    assert stream.source is source
    assert (stream.status, stream.content_type, stream.headers) == (200, "application/octet-stream", {})


@pytest.mark.parametrize("source", [[b"x"], iter([b"x"]), b"x", chunks, None])
def test_a_source_that_is_no_async_iterable_is_refused(source: object) -> None:
    with pytest.raises(TypeError, match="async iterable"):
        Stream(source)  # type: ignore[arg-type]


def test_the_options_of_a_stream_are_by_name() -> None:
    with pytest.raises(TypeError):
        Stream(chunks(), 200)  # type: ignore[call-arg]


COOKIES: list[tuple[dict[str, object], str]] = [
    ({}, "n=v; Path=/; HttpOnly; SameSite=Lax; Secure"),
    ({"path": "/a"}, "n=v; Path=/a; HttpOnly; SameSite=Lax; Secure"),
    ({"domain": "example.test"}, "n=v; Path=/; Domain=example.test; HttpOnly; SameSite=Lax; Secure"),
    ({"max_age": 60}, "n=v; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure"),
    ({"max_age": 0}, "n=v; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure"),
    ({"http_only": False}, "n=v; Path=/; SameSite=Lax; Secure"),
    ({"same_site": "Strict"}, "n=v; Path=/; HttpOnly; SameSite=Strict; Secure"),
    ({"same_site": "None"}, "n=v; Path=/; HttpOnly; SameSite=None; Secure"),
    ({"same_site": None}, "n=v; Path=/; HttpOnly; Secure"),
    ({"secure": False}, "n=v; Path=/; HttpOnly; SameSite=Lax"),
    (
        {"domain": "d", "max_age": 1, "http_only": False, "same_site": None, "secure": False},
        "n=v; Path=/; Domain=d; Max-Age=1",
    ),
]


@pytest.mark.parametrize(("options", "text"), COOKIES)
def test_a_cookie_is_written_as_the_pattern_says(options: dict[str, object], text: str) -> None:
    for answer in (Response(), Stream(chunks())):
        changed = answer.set_cookie("n", "v", **options)  # type: ignore[arg-type]
        assert changed.header_list() == [("Set-Cookie", text)]
        assert type(changed) is type(answer)
        assert answer.headers == {}


def test_each_cookie_is_a_header_of_its_own_beside_the_others() -> None:
    response = Response(headers={"set-cookie": "a=1", "X": "y"}).set_cookie("b", "2", same_site=None)
    response = response.delete_cookie("c")
    assert response.header_list() == [
        ("set-cookie", "a=1"),
        ("set-cookie", "b=2; Path=/; HttpOnly; Secure"),
        ("set-cookie", "c=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure"),
        ("X", "y"),
    ]


def test_a_deleted_cookie_keeps_path_and_domain() -> None:
    response = Response().delete_cookie("c", path="/p", domain="d")
    text = "c=; Path=/p; Domain=d; Max-Age=0; HttpOnly; SameSite=Lax; Secure"
    assert response.header_list() == [("Set-Cookie", text)]


def test_a_subclass_with_another_constructor_gets_cookies_too() -> None:
    class Page(Response):
        def __init__(self, text: str) -> None:
            Response.__init__(self, text, content_type="text/html")

    page = Page("x").set_cookie("a")
    assert isinstance(page, Page)
    assert (page.body, page.content_type, len(page.headers)) == ("x", "text/html", 1)


@pytest.mark.parametrize("name", ["", "a b", "a=b", "a;b", "é", "a\n", "[", 'a"'])
def test_a_name_that_the_grammar_forbids_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cookie name"):
        Response().set_cookie(name)


@pytest.mark.parametrize("value", ["a b", "a;b", "a,b", "a\\b", 'a"b', '"a', "é", "a\r\nb", "\x7f", '""a'])
def test_a_value_that_the_grammar_forbids_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="cookie value"):
        Response().set_cookie("n", value)


@pytest.mark.parametrize("value", ["", '""', '"quoted"', "!#$%&'()*+-./09:<=>?@AZ[]^_`az{|}~"])
def test_a_value_that_the_grammar_allows_is_sent_as_it_is(value: str) -> None:
    pairs = Response().set_cookie("n", value, same_site=None).header_list()
    assert pairs == [("Set-Cookie", f"n={value}; Path=/; HttpOnly; Secure")]


@pytest.mark.parametrize(
    "options",
    [
        {"same_site": "lax"},
        {"same_site": "none"},
        {"same_site": ""},
        {"same_site": "None", "secure": False},
        {"path": "/;x"},
        {"path": "/\r\nx"},
        {"domain": "a;b"},
        {"domain": "a\nb"},
    ],
)
def test_a_bad_attribute_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"same_site|path|domain"):
        Response().set_cookie("n", "v", **options)  # type: ignore[arg-type]
