"""Registration: how a handler's parameters bind, and what is refused (api.md 2.1 to 2.5)."""

from __future__ import annotations

import datetime
import decimal
import enum
import functools
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional

import pytest

from oxbrook import App, Request
from oxbrook._binding import Parameter
from oxbrook._routing import Route


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Mixed(enum.Enum):
    A = "a"
    B = 2


class Model:
    pass


def registered(fn: Callable[..., object], path: str = "/", **options: Any) -> Route:
    app = App()
    app.get(path, **options)(fn)
    return app.routes[0]


# What receives the request: the handler, the path, and the index or the keyword it arrives by.


async def nothing() -> None: ...
async def annotated(a: int, r: Request) -> None: ...
async def annotated_deeper(a: int, r: Annotated[Request, "note"]) -> None: ...
async def by_string(a: int, r: Request) -> None: ...
async def by_last_name(a: int, r: unknown.Request) -> None: ...  # type: ignore[name-defined]  # noqa: F821
async def named(a: int, request: Any) -> None: ...
async def named_untyped(a: int, request) -> None: ...  # type: ignore[no-untyped-def]
async def first_underscore(_: int) -> None: ...
async def first_untyped(r) -> None: ...  # type: ignore[no-untyped-def]
async def first_any(r: Any) -> None: ...
async def first_object(r: object) -> None: ...
async def first_is_query(a: int) -> None: ...
async def first_has_default(a: str = "x") -> None: ...
async def keyword_only(a: int, *, request: Request) -> None: ...
async def placeholder_named_request(request: str) -> None: ...
async def varied(request: Request, *args: object, **kwargs: object) -> None: ...
async def annotated_beats_named(request: str, r: Request) -> None: ...


REQUESTS = [
    (nothing, "/", None, None),
    (annotated, "/", 1, None),
    (annotated_deeper, "/", 1, None),
    (by_string, "/", 1, None),
    (by_last_name, "/", 1, None),
    (named, "/", 1, None),
    (named_untyped, "/", 1, None),
    (first_underscore, "/", 0, None),
    (first_untyped, "/", 0, None),
    (first_any, "/", 0, None),
    (first_object, "/", 0, None),
    (first_is_query, "/", None, None),
    (first_has_default, "/", None, None),
    (first_untyped, "/{r}", None, None),
    (keyword_only, "/", None, "request"),
    (placeholder_named_request, "/{request}", None, None),
    (varied, "/", 0, None),
    (annotated_beats_named, "/", 1, None),
]


@pytest.mark.parametrize(("fn", "path", "index", "keyword"), REQUESTS)
def test_the_request_goes_to_the_parameter_of_the_first_rule_that_applies(
    fn: Callable[..., object], path: str, index: int | None, keyword: str | None
) -> None:
    binding = registered(fn, path).binding
    assert (binding.request_index, binding.request_keyword) == (index, keyword)


DEFAULT = object()
QUERIES: list[tuple[Any, Any, dict[str, Any]]] = [
    (str, ..., {"kind": "str", "presence": "required"}),
    (int, ..., {"kind": "int"}),
    (float, ..., {"kind": "float"}),
    (bool, ..., {"kind": "bool"}),
    (uuid.UUID, ..., {"kind": "uuid"}),
    (datetime.date, ..., {"kind": "date"}),
    (datetime.datetime, ..., {"kind": "datetime"}),
    (decimal.Decimal, ..., {"kind": "decimal"}),
    (Colour, ..., {"kind": "enum", "choices": (Colour.RED, Colour.BLUE)}),
    (Size, ..., {"kind": "enum", "choices": (Size.SMALL, Size.LARGE)}),
    (Literal["a", 1], ..., {"kind": "literal", "choices": ("a", 1)}),
    (Annotated[int, "note"], ..., {"kind": "int"}),
    (int | None, ..., {"kind": "int", "presence": "optional", "default": None}),
    (Optional[int], ..., {"kind": "int", "presence": "optional"}),  # noqa: UP045
    (Annotated[int, "note"] | None, ..., {"kind": "int", "presence": "optional"}),
    (int, DEFAULT, {"kind": "int", "presence": "default", "default": DEFAULT}),
    (int | None, DEFAULT, {"kind": "int", "presence": "default", "default": DEFAULT}),
    (int | None, None, {"kind": "int", "presence": "default", "default": None}),
    (list[int], ..., {"kind": "int", "is_list": True, "presence": "required"}),
    (list[int], DEFAULT, {"kind": "int", "is_list": True, "presence": "default", "default": DEFAULT}),
    (list[int] | None, ..., {"kind": "int", "is_list": True, "presence": "optional"}),
    (list[Annotated[Colour, "note"]], ..., {"kind": "enum", "is_list": True}),
    ("int", ..., {"kind": "int"}),
    ("uuid.UUID | None", ..., {"kind": "uuid", "presence": "optional"}),
    ("elsewhere.UUID", ..., {"kind": "uuid"}),
]


def taking(annotation: Any, default: Any = ...) -> Callable[..., object]:
    """Return a handler with one parameter `value`."""

    async def handler(value: Any = default) -> None: ...

    handler.__annotations__["value"] = annotation
    if default is ...:
        handler.__defaults__ = None
    return handler


@pytest.mark.parametrize(("annotation", "default", "expected"), QUERIES)
def test_a_query_parameter_is_declared_by_type_presence_and_list(
    annotation: Any, default: Any, expected: dict[str, Any]
) -> None:
    (found,) = registered(taking(annotation, default)).params
    assert (found.name, found.source, found.alias) == ("value", "query", None)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    "annotation", [str, int, float, bool, uuid.UUID, datetime.date, decimal.Decimal, Colour, Literal["a"]]
)
def test_a_placeholder_makes_a_path_parameter(annotation: Any) -> None:
    (found,) = registered(taking(annotation), "/{value}").params
    assert (found.source, found.presence) == ("path", "required")


def test_an_unannotated_placeholder_is_text_and_parameters_stand_in_signature_order() -> None:
    async def handler(q: int, b, r: Request, a: int, *, z: str = "z") -> None: ...  # type: ignore[no-untyped-def]

    route = registered(handler, "/{a}/{b}")
    assert [(p.name, p.source, p.kind, p.is_keyword_only) for p in route.params] == [
        ("q", "query", "int", False),
        ("b", "path", "str", False),
        ("a", "path", "int", False),
        ("z", "query", "str", True),
    ]
    assert route.binding.request_index == 2


def test_a_catch_all_is_text() -> None:
    async def handler(rest: str) -> None: ...
    async def untyped(rest) -> None: ...  # type: ignore[no-untyped-def]
    async def wrong(rest: int) -> None: ...

    assert registered(handler, "/files/{*rest}").params[0].kind == "str"
    assert registered(untyped, "/files/{*rest}").params[0].kind == "str"
    with pytest.raises(TypeError, match=r"\{\*rest\} must be annotated str"):
        registered(wrong, "/files/{*rest}")


REFUSED: list[tuple[Any, str, str]] = [
    (list, "/", "bare list"),
    (list | None, "/", "bare list"),
    (list[list[int]], "/", "not supported"),
    (list[int | None], "/", "not supported"),
    (int | str, "/", "T | None"),
    (dict, "/", "dict is not supported"),
    (Model, "/", "Model is not supported"),
    (complex, "/", "complex is not supported"),
    (Mixed, "/", "all str or all int"),
    (Literal["a", None], "/", "more than str and int"),
    (Literal[True], "/", "more than str and int"),
    (Literal[9223372036854775808], "/", "beyond 64 bits"),
    ("Nowhere", "/", "'Nowhere' is not supported"),
    (int | None, "/{value}", "path parameter cannot be"),
    (list[int], "/{value}", "path parameter cannot be"),
    (dict, "/{value}", "dict is not supported"),
    (5, "/", "5 is not supported"),
    ([], "/", "is not supported"),
]


@pytest.mark.parametrize(("annotation", "path", "text"), REFUSED)
def test_an_annotation_that_is_not_supported_is_a_type_error(annotation: Any, path: str, text: str) -> None:
    with pytest.raises(TypeError) as caught:
        registered(taking(annotation), path)
    assert text in str(caught.value)
    assert "parameter 'value'" in str(caught.value)


def test_a_later_parameter_without_annotation_and_a_second_request_are_type_errors() -> None:
    async def untyped(a: int, b) -> None: ...  # type: ignore[no-untyped-def]
    async def twice(a: Request, b: Request) -> None: ...

    with pytest.raises(TypeError, match="has no annotation"):
        registered(untyped)
    with pytest.raises(TypeError, match="takes the Request twice: 'a' and 'b'"):
        registered(twice)


def test_a_placeholder_the_handler_does_not_accept_is_a_type_error() -> None:
    async def handler(other: int = 1, **more: object) -> None: ...

    with pytest.raises(TypeError, match=r"does not accept the path placeholder \{value\}"):
        registered(handler, "/{value}")


PATHS = [
    "",
    "users",
    "/{",
    "/}",
    "/{}",
    "/{1a}",
    "/{a-b}",
    "/{a}{b}",
    "/{a}-{b}",
    "/{a}/{a}",
    "/{*a}/b",
    "/{*}",
    "/x{*a}y",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_bad_path_is_a_value_error(path: str) -> None:
    async def handler(a: str, b: str) -> None: ...

    with pytest.raises(ValueError, match=r"test_routing\.py:\d+"):
        registered(handler, path)


CONFLICTS = [
    ("/a", "/a"),
    ("/{a}", "/{b}"),
    ("/x/{a}/y", "/x/{b}/y"),
    ("/{a}", "/{*b}"),
    ("/pre-{a}", "/pre-{b}"),
]


@pytest.mark.parametrize(("first", "second"), CONFLICTS)
def test_a_second_route_of_one_method_and_shape_conflicts(first: str, second: str) -> None:
    async def handler(a: str = "", b: str = "") -> None: ...

    app = App()
    app.get(first)(handler)
    app.post(second)(handler)
    with pytest.raises(ValueError, match="conflicts with") as caught:
        app.get(second)(handler)
    assert f"GET {first}" in str(caught.value)
    assert len(app.routes) == 2


def test_routes_that_differ_in_shape_do_not_conflict() -> None:
    async def handler(a: str = "") -> None: ...

    app = App()
    for path in ("/", "/a", "/a/", "/A", "/{a}", "/x/{a}", "/x/{a}.json", "/x/y-{a}", "/x/y/{*a}"):
        app.get(path)(handler)
    assert len(app.routes) == 9


def plain() -> None: ...
async def awaited() -> None: ...
async def generator() -> Any:
    yield


KINDS = [
    (plain, {}, "blocking=True"),
    (awaited, {"blocking": True}, "already runs on the worker loop"),
    (awaited, {"inline": True}, "inline"),
    (plain, {"blocking": True, "inline": True}, "inline"),
    (awaited, {"blocking": True, "inline": True}, "inline"),
    (generator, {}, "Stream"),
    (5, {}, "must be a function"),
]


@pytest.mark.parametrize(("fn", "options", "text"), KINDS)
def test_a_handler_whose_way_to_run_is_unclear_is_a_type_error(
    fn: Any, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(TypeError) as caught:
        registered(fn, **options)
    assert text in str(caught.value)


OPTIONS = [
    ("status", 199),
    ("status", 400),
    ("status", "200"),
    ("status", True),
    ("max_body", -1),
    ("max_body", 1.0),
    ("max_body", True),
]


@pytest.mark.parametrize(("name", "value"), OPTIONS)
def test_a_bad_option_of_a_route_is_a_value_error(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        registered(awaited, "/", **{name: value})


@pytest.mark.parametrize("name", ["tool", "auth", "rate_limit", "offload"])
def test_an_option_of_a_later_version_is_no_part_of_the_signature(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        registered(awaited, "/", **{name: None})


@pytest.mark.parametrize("method", ["", "G ET", "GET\r\n", "GÄT", 5])
def test_a_bad_method_is_refused(method: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"method|METHOD"):
        App().route(method, "/")


def test_a_mistake_names_the_place_of_its_decorator_and_registers_nothing() -> None:
    app = App()
    with pytest.raises(TypeError) as caught:

        @app.get("/")
        def handler() -> None: ...

    line = caught.tb.tb_lineno
    assert f"{__file__}:{line}" in str(caught.value)
    assert app.routes == []


def test_each_decorator_registers_its_method_and_returns_the_function() -> None:
    app = App()
    for method in ("get", "post", "put", "patch", "delete"):
        assert getattr(app, method)("/" + method)(awaited) is awaited
    assert app.route("options", "/any")(awaited) is awaited
    assert [(route.method, route.path) for route in app.routes] == [
        ("GET", "/get"),
        ("POST", "/post"),
        ("PUT", "/put"),
        ("PATCH", "/patch"),
        ("DELETE", "/delete"),
        ("OPTIONS", "/any"),
    ]


def test_a_record_shows_what_was_declared() -> None:
    app = App()

    @app.put("/{a}", blocking=True, status=201, max_body=5, cancel_on_disconnect=False)
    def handler(a: int) -> None: ...

    (route,) = app.routes
    assert (route.method, route.path, route.fn, route.blocking, route.inline) == (
        "PUT",
        "/{a}",
        handler,
        True,
        False,
    )
    assert (route.status, route.max_body, route.cancel_on_disconnect, route.kind) == (
        201,
        5,
        False,
        "blocking",
    )
    assert route.name.endswith("test_a_record_shows_what_was_declared.<locals>.handler")
    assert route.params == (Parameter(name="a", kind="int", source="path", presence="required"),)


class Methods:
    async def handle(self, a: int) -> None: ...
    async def __call__(self, a: int) -> None: ...


def test_methods_callables_partials_and_wrapped_functions_bind_what_is_left_to_give() -> None:
    async def two(b: str, a: int) -> None: ...

    @functools.wraps(awaited_with_a)
    async def wrapper(*args: object, **kwargs: object) -> None: ...

    for fn in (Methods().handle, Methods(), functools.partial(two, "b"), wrapper):
        assert [p.name for p in registered(fn).params] == ["a"]


async def awaited_with_a(a: int) -> None: ...


def test_a_class_of_the_enclosing_function_is_found_in_a_string_annotation() -> None:
    class Local(enum.Enum):
        X = "x"

    app = App()

    @app.get("/")
    async def handler(value: Local) -> None: ...

    assert app.routes[0].params[0].choices == (Local.X,)
