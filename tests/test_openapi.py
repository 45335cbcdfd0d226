"""The OpenAPI document (api.md 15)."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from oxbrook import App, Cookie, Depends, Header, Query, Request, Response, Router
from oxbrook.testing import TestClient
from tests.support import Command

# Called with what a type checker would refuse.
make: Any = App


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str] = []


class Order(BaseModel):
    """What is ordered."""

    item: str = Field(alias="article")
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    note: str | None = None
    price: Decimal = Decimal("1.50")


class Receipt(BaseModel):
    number: int
    order: Order


class Refusal(BaseModel):
    why: str


def build() -> App:
    app = App("Shop", "2.0", "Sells *things*.")

    @app.get("/items/{item}/{*rest}")
    async def read(
        item: int,
        rest: str,
        q: str,
        ratio: Annotated[float, Query(ge=0.5, le=Decimal("2.5"))] = 1.0,
        flag: bool | None = None,
        ids: list[UUID] | None = None,
        day: date = date(2026, 1, 2),
        at: datetime | None = None,
        price: Annotated[Decimal | None, Query(alias="p")] = None,
        colour: Colour = Colour.RED,
        size: Literal[1, 2] = 1,
        mixed: Literal["a", 1] = "a",
        word: Annotated[str, Query(pattern="^[a-z]+$")] = "x",
        x_token: Annotated[str | None, Header] = None,
        sid: Annotated[str, Cookie] = "",
    ) -> dict[str, int]:
        """Read an item
        of the shop.

        With a *long* description.

        In two parts.
        """
        return {}

    @app.post("/orders", status=201, tags=["orders"], responses={409: Refusal, 404: None})
    async def create(order: Order, hidden: int = Depends(lambda: 1)) -> Receipt:
        return Receipt(number=1, order=order)

    @app.get("/orders", summary="All of them", deprecated=True)
    async def everything() -> list[Receipt]:
        return []

    @app.delete("/orders", include_in_schema=False)
    async def forget() -> None: ...

    router = Router("/sub")

    def same_name(method: str) -> None:
        @router.route(method, "")
        async def same(request: Request) -> Response:
            return Response()

    same_name("GET")
    same_name("PUT")
    app.include(router)
    return app


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return build().openapi()


def test_a_validator_accepts_every_construct(document: dict[str, Any]) -> None:
    # On free-threaded builds it cannot be had; the document is the same there.
    validator = pytest.importorskip("openapi_spec_validator").OpenAPIV31SpecValidator
    validator(document).validate()
    with pytest.raises(Exception, match="required"):
        validator({**document, "info": {}}).validate()
    assert document["openapi"] == "3.1.0"
    assert document["info"] == {"title": "Shop", "version": "2.0", "description": "Sells *things*."}
    assert json.loads(json.dumps(document)) == document
    for empty in (App(), App(description="")):
        validator(empty.openapi()).validate()
        assert "description" not in empty.openapi()["info"]


def test_an_operation_says_what_its_handler_does(document: dict[str, Any]) -> None:
    operation = document["paths"]["/items/{item}/{rest}"]["get"]
    assert operation["operationId"] == "read"
    assert operation["summary"] == "Read an item of the shop."
    assert operation["description"] == "With a *long* description.\n\nIn two parts."
    assert set(operation["responses"]) == {"200", "422"}
    problem = operation["responses"]["422"]["content"]["application/problem+json"]["schema"]
    assert problem == {"$ref": "#/components/schemas/ValidationProblem"}
    deprecated = document["paths"]["/orders"]["get"]
    assert (deprecated["summary"], deprecated["deprecated"]) == ("All of them", True)
    assert "deprecated" not in operation
    assert "tags" not in operation
    assert set(document["paths"]["/orders"]) == {"get", "post"}, "what is not to be shown is not"


def test_parameters_are_described_as_they_are_checked(document: dict[str, Any]) -> None:
    listed = document["paths"]["/items/{item}/{rest}"]["get"]["parameters"]
    found = {one["name"]: (one["in"], one["required"], one["schema"]) for one in listed}
    null = {"type": "null"}
    assert found == {
        "item": ("path", True, {"type": "integer"}),
        "rest": ("path", True, {"type": "string"}),
        "q": ("query", True, {"type": "string"}),
        "ratio": ("query", False, {"type": "number", "minimum": 0.5, "maximum": 2.5, "default": 1.0}),
        "flag": ("query", False, {"anyOf": [{"type": "boolean"}, null]}),
        "ids": (
            "query",
            False,
            {"anyOf": [{"type": "array", "items": {"type": "string", "format": "uuid"}}, null]},
        ),
        "day": ("query", False, {"type": "string", "format": "date", "default": "2026-01-02"}),
        "at": ("query", False, {"anyOf": [{"type": "string", "format": "date-time"}, null]}),
        "p": ("query", False, {"anyOf": [{"type": "string", "format": "decimal"}, null]}),
        "colour": ("query", False, {"type": "string", "enum": ["red", "blue"], "default": "red"}),
        "size": ("query", False, {"type": "integer", "enum": [1, 2], "default": 1}),
        "mixed": ("query", False, {"enum": ["a", 1], "default": "a"}),
        "word": ("query", False, {"type": "string", "pattern": "^[a-z]+$", "default": "x"}),
        "x-token": ("header", False, {"anyOf": [{"type": "string"}, null]}),
        "sid": ("cookie", False, {"type": "string", "default": ""}),
    }


def test_bodies_answers_and_their_models(document: dict[str, Any]) -> None:
    operation = document["paths"]["/orders"]["post"]
    assert operation["tags"] == ["orders"]
    assert "parameters" not in operation, "a dependency is none"
    body = operation["requestBody"]
    assert body["required"] is True
    reference = body["content"]["application/json"]["schema"]["$ref"]
    name = reference.removeprefix("#/components/schemas/")
    schemas = document["components"]["schemas"]
    assert schemas[name]["description"] == "What is ordered."
    assert "article" in schemas[name]["properties"]
    assert {"Cat", "Dog", "Receipt", "Refusal", "Problem", "ValidationProblem"} <= set(schemas)
    answers = operation["responses"]
    assert set(answers) == {"201", "422", "404", "409"}
    assert answers["201"]["description"] == "Created"
    assert "content" not in answers["404"]
    assert answers["409"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Refusal"}
    several = document["paths"]["/orders"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert several == {"type": "array", "items": {"$ref": "#/components/schemas/Receipt"}}


def test_r40_operation_ids_are_unique_and_the_same_each_time(document: dict[str, Any]) -> None:
    ids = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(ids) == len(set(ids))
    assert document["paths"]["/sub"]["get"]["operationId"] == "same_get_sub"
    app = App()

    async def twin() -> None: ...

    for path in ("/a-b", "/a/b", "/"):
        app.get(path)(twin)
    paths = app.openapi()["paths"]
    assert [paths[path]["get"]["operationId"] for path in ("/a-b", "/a/b", "/")] == [
        "twin_get_a_b",
        "twin_get_a_b_2",
        "twin_get_root",
    ]
    # One function for two methods of one path.
    methods = ("post", "delete")
    for method in methods:
        getattr(app, method)("/both")(twin)
    operations = app.openapi()["paths"]["/both"]
    assert [operations[method]["operationId"] for method in methods] == ["twin_post_both", "twin_delete_both"]
    assert app.openapi() == app.openapi()


def test_the_document_is_served_and_listed_as_built_in() -> None:
    app = build()
    with TestClient(app) as client:
        answer = client.get("/openapi.json")
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == app.openapi()
    assert all(route.path != "/openapi.json" for route in app.routes)
    with TestClient(App(openapi_url=None)) as client:
        assert client.get("/openapi.json").status_code == 404
    own = App(openapi_url="/about")

    @own.get("/about")
    async def about() -> str:
        return "mine"

    with TestClient(own) as client:
        assert client.get("/about").text == "mine"


def test_bad_documentation_is_refused_where_it_stands() -> None:
    app: Any = App()
    for options, error in (
        ({"tags": "one"}, TypeError),
        ({"tags": [1]}, TypeError),
        ({"responses": [404]}, TypeError),
        ({"responses": {404: str}}, TypeError),
        ({"responses": {600: None}}, ValueError),
        ({"responses": {"404": None}}, ValueError),
    ):
        with pytest.raises(error, match=r"test_openapi.py:\d+"):
            app.get("/x", **options)
    for url in ("x", "/{a}", ""):
        with pytest.raises(ValueError, match=r"must start|placeholders"):
            make(openapi_url=url)
    with pytest.raises(TypeError):
        make(openapi_url=1)


def test_the_command_prints_the_document_or_writes_it(
    run: Callable[..., Command], write: Callable[[str, str], Path], tmp_path: Path
) -> None:
    write("main.py", "from oxbrook import App\n\napp = App('Ünï')\n")
    printed = run("openapi", "main")
    assert printed.ended() == 0
    text = printed.out.text + "\n"
    assert json.loads(text)["info"]["title"] == "Ünï"
    assert text.startswith('{\n  "openapi": "3.1.0",')
    written = run("openapi", "main", "-o", "api.json")
    assert written.ended() == 0
    assert (tmp_path / "api.json").read_text(encoding="utf-8") == text
    refused = run("openapi", "main", "-o", "no/such/folder")
    assert refused.ended() == 2
    assert refused.err.text.startswith("oxbrook: error: -o no/such/folder: ")
    listed = run("routes", "main")
    assert listed.ended() == 0
    assert listed.out.lines[1].split() == ["GET", "/openapi.json", "oxbrook", "built", "in"]
