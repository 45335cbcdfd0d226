"""Header, cookie and query parameters, bounds and patterns (api.md 2.5)."""

from __future__ import annotations

import enum
import socket
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel

from oxbrook import App, Cookie, Depends, Header, Query, Request
from oxbrook.testing import TestClient
from tests.support import DEADLINE

# Called with what a type checker would refuse.
header: Any = Header
query: Any = Query


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def build() -> App:
    app = App()

    @app.get("/headers")
    async def headers(
        x_token: Annotated[str, Header],
        number: Annotated[int, Header(alias="X-Number")] = 7,
        maybe: Annotated[UUID | None, Header()] = None,
        x_many: Annotated[list[str] | None, Header] = None,
        *,
        colour: Annotated[Colour, Header] = Colour.BLUE,
    ) -> list[object]:
        return [x_token, number, maybe, x_many, colour]

    @app.get("/optional")
    async def optional(x_token: Annotated[str | None, Header]) -> list[object]:
        return [x_token]

    @app.get("/cookies")
    async def cookies(
        sid: Annotated[str, Cookie], n: Annotated[int | None, Cookie(alias="n-n", ge=1)] = None
    ) -> list[object]:
        return [sid, n]

    @app.get("/query")
    async def queried(
        page: Annotated[int, Query(alias="p", ge=1, le=10)] = 1,
        ratio: Annotated[float | None, Query(ge=0.5)] = None,
        price: Annotated[Decimal | None, Query(le=Decimal("9.99"))] = None,
        word: Annotated[str | None, Query(pattern=r"^[a-z]+\d?$")] = None,
        many: Annotated[list[int] | None, Query(le=5)] = None,
    ) -> list[object]:
        return [page, ratio, price, word, many]

    @app.get("/mixed/{x}")
    async def mixed(
        x: int,
        request: Request,
        accept: Annotated[str, Header],
        doubled: int = Depends(lambda: 2),
        kind: Annotated[Literal["a", 1], Query] = "a",
    ) -> list[object]:
        return [x, request.path, accept, doubled, kind]

    return app


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(build()) as client:
        yield client


def entry(client: TestClient, path: str, headers: Any = None) -> dict[str, object]:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    found: dict[str, object] = error
    return found


def test_headers_are_read_by_name_in_any_case_with_dashes(client: TestClient) -> None:
    uuid = "12345678-1234-5678-1234-567812345678"
    headers = [("X-TOKEN", "t"), ("x-number", "-3"), ("Maybe", uuid), ("X-Many", "a, b"), ("x-many", "c")]
    assert client.get("/headers", headers=[*headers, ("Colour", "red")]).json() == [
        "t",
        -3,
        uuid,
        ["a, b", "c"],
        "red",
    ]
    assert client.get("/headers", headers={"X-Token": "t"}).json() == ["t", 7, None, None, "blue"]
    assert client.get("/headers", headers=[("X-Token", "first"), ("X-Token", "second")]).json()[0] == "first"


def test_what_is_wrong_with_a_header_names_it_in_lower_case(client: TestClient) -> None:
    missing = {"type": "missing", "loc": ["header", "x-token"], "msg": "Field required"}
    assert entry(client, "/headers") == missing
    assert entry(client, "/headers", {"X-Token": "t", "X-Number": "x"}) == {
        "type": "header_param_parsing",
        "loc": ["header", "x-number"],
        "msg": "Input should be a valid integer",
        "input": "x",
    }
    assert entry(client, "/headers", {"X-Token": "t", "Colour": "green"}) == {
        "type": "enum",
        "loc": ["header", "colour"],
        "msg": "Input should be 'red' or 'blue'",
        "input": "green",
    }


def test_a_header_that_request_header_would_not_give_is_absent(client: TestClient) -> None:
    with socket.create_connection((client.host, client.port or 0), DEADLINE) as raw:
        raw.sendall(b"GET /optional HTTP/1.1\r\nHost: a\r\nX-Token: \xe9\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := raw.recv(65536):
            answer += piece
    assert answer.endswith(b"[null]")


def test_cookies_are_as_they_were_sent_and_the_last_one_counts(client: TestClient) -> None:
    assert client.get("/cookies", headers={"Cookie": "sid=a%20b; n-n=2"}).json() == ["a%20b", 2]
    several = [("Cookie", "sid=1; other; sid = 2"), ("Cookie", "x=y")]
    assert client.get("/cookies", headers=several).json() == ["2", None]
    assert entry(client, "/cookies") == {"type": "missing", "loc": ["cookie", "sid"], "msg": "Field required"}
    assert entry(client, "/cookies", {"Cookie": "sid=a; n-n=x"})["type"] == "cookie_param_parsing"
    assert entry(client, "/cookies", {"Cookie": "sid=a; n-n=0"}) == {
        "type": "greater_than_equal",
        "loc": ["cookie", "n-n"],
        "msg": "Input should be greater than or equal to 1",
        "input": "0",
    }


def test_bounds_and_patterns(client: TestClient) -> None:
    assert client.get("/query").json() == [1, None, None, None, None]
    good = "/query?p=10&ratio=0.5&price=9.990&word=abc1&many=5&many=-7"
    assert client.get(good).json() == [10, 0.5, "9.990", "abc1", [5, -7]]
    for path, kind, name, message, text in (
        ("p=0", "greater_than_equal", "p", "greater than or equal to 1", "0"),
        ("p=11", "less_than_equal", "p", "less than or equal to 10", "11"),
        ("ratio=0.4999", "greater_than_equal", "ratio", "greater than or equal to 0.5", "0.4999"),
        ("price=9.991", "less_than_equal", "price", "less than or equal to 9.99", "9.991"),
        ("price=9.99000000000000000000001", "less_than_equal", "price", "less than or equal to 9.99", None),
        ("many=1&many=6", "less_than_equal", "many", "less than or equal to 5", "6"),
    ):
        error = entry(client, f"/query?{path}")
        assert (error["type"], error["loc"]) == (kind, ["query", name])
        assert error["msg"] == f"Input should be {message}"
        assert text is None or error["input"] == text
    assert entry(client, "/query?word=ABC") == {
        "type": "string_pattern_mismatch",
        "loc": ["query", "word"],
        "msg": r"String should match pattern '^[a-z]+\d?$'",
        "input": "ABC",
    }
    assert entry(client, "/query?p=x")["type"] == "query_param_parsing"


def test_markers_beside_everything_else(client: TestClient) -> None:
    answer = client.get("/mixed/3?kind=1", headers={"Accept": "text/x"})
    assert answer.json() == [3, "/mixed/3", "text/x", 2, 1]
    assert entry(client, "/mixed/x?kind=z")["loc"] == ["path", "x"], "path parameters come first"


def test_the_record_of_a_route_shows_where_a_parameter_is_read() -> None:
    records = {route.path: route.params for route in build().routes}
    shown = [(one.name, one.source, one.alias, one.presence) for one in records["/headers"]]
    assert shown[:2] == [("x_token", "header", None, "required"), ("number", "header", "X-Number", "default")]
    assert [one.source for one in records["/mixed/{x}"]] == ["path", "header", "query"]


class Model(BaseModel):
    n: int


def test_bad_declarations_are_type_errors_that_name_the_parameter() -> None:
    app: Any = App()
    bad: list[tuple[Any, Any, str]] = [
        (Annotated[str, Header(ge=1)], None, "ge and le bound int, float and Decimal"),
        (Annotated[int, Query(pattern="x")], None, "a pattern is searched for in a str"),
        (Annotated[list[str], Cookie], None, "a cookie cannot be a list"),
        (Annotated[str, Header, Query], None, "two markers"),
        (Annotated[Model, Header], None, "Header cannot stand on a body"),
        (Annotated[str, Query], Depends(lambda: 1), "Query cannot stand on a dependency"),
        (str, Header(), "write Annotated"),
    ]
    for annotation, default, text in bad:

        async def handler(value: Any = default) -> None: ...

        handler.__annotations__["value"] = annotation
        if default is None:
            handler.__defaults__ = None
        with pytest.raises(TypeError, match=f"parameter 'value': .*{text}"):
            app.get("/x")(handler)

    async def on_path(value: Annotated[str, Header]) -> None: ...

    with pytest.raises(TypeError, match="Header cannot stand on a path placeholder"):
        app.get("/{value}")(on_path)


def test_bad_markers_are_refused_where_they_stand() -> None:
    for make, text in (
        (lambda: Query(ge=2, le=1), "above"),
        (lambda: Query(pattern="("), "does not compile"),
        (lambda: Query(pattern="(?=x)"), "does not compile"),
        (lambda: Query(alias=""), "no name"),
        (lambda: Header(alias="a b"), "no name"),
        (lambda: Cookie(alias="a="), "no name"),
        (lambda: Query(ge=float("nan")), "finite"),
    ):
        with pytest.raises(ValueError, match=text):
            make()
    for make in (
        lambda: query(ge="1"),
        lambda: query(le=True),
        lambda: query(pattern=1),
        lambda: header("x"),
    ):
        with pytest.raises(TypeError):
            make()
    assert Query(alias="any name at all").alias == "any name at all"
