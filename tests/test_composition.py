"""Routers, dependencies, middleware, exception handlers and `Reply` (api.md 5.2, 6.4, 7 and 8)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, Field

from oxbrook import (
    HTML,
    App,
    Depends,
    HTTPError,
    Redirect,
    Reply,
    Request,
    RequestValidationError,
    Response,
    Router,
    Stream,
)
from oxbrook._blocking import Pool
from oxbrook._compose import Surroundings, compose
from oxbrook.testing import TestClient
from tests.support import DEADLINE, eventually

if TYPE_CHECKING:
    from typing import Self

Next = Callable[[Request], Awaitable[Reply]]
# Called with what a type checker would refuse.
loose: Any = App()
a_router: Any = Router


def test_a_route_with_nothing_around_it_is_its_handler_alone() -> None:
    app = App()

    @app.get("/plain/{name}")
    async def plain(name: str, q: int = 1) -> str:
        return name

    @app.get("/needs")
    async def needs(one: int = Depends(lambda: 1)) -> int:
        return one

    bare = Surroundings((), {}, False, Pool(1))
    assert [compose(route, bare) is None for route in app.routes] == [True, False]
    answering: Any = plain
    handlers = Surroundings((), {ValueError: answering}, False, Pool(1))
    assert compose(app.routes[0], handlers) is not None


# Dependencies


def test_a_dependency_gives_what_it_returns_whatever_its_kind() -> None:
    app = App()

    class Settings:
        def __init__(self, request: Request) -> None:
            self.path = request.path

    class Callable_:
        async def __call__(self, anything: Request) -> str:
            return f"called for {anything.method}"

    def plain() -> int:
        return 1

    async def awaited(_: Request) -> int:
        return 2

    def generator(request: Request) -> Iterator[str]:
        yield request.path

    async def agenerator() -> AsyncIterator[int]:
        await asyncio.sleep(0)
        yield 4

    def unfilled(request: Request, other: str = "kept", *, sub: int = Depends(plain)) -> list[object]:
        return [request.path, other, sub]

    @app.get("/{name}")
    async def handler(
        name: str,
        request: Request,
        one: int = Depends(plain),
        two: int = Depends(awaited),
        three: str = Depends(generator),
        *,
        four: int = Depends(agenerator),
        five: Settings = Depends(Settings),
        six: str = Depends(Callable_()),
        seven: list[object] = Depends(unfilled),
        q: int = 7,
    ) -> list[object]:
        return [name, request.path, one, two, three, four, five.path, six, seven, q]

    with TestClient(app) as client:
        expected = ["n", "/n", 1, 2, "/n", 4, "/n", "called for GET", ["/n", "kept", 1], 9]
        assert client.get("/n?q=9").json() == expected
        assert client.get("/n?q=x").status_code == 422


def test_a_dependency_runs_once_a_request_unless_it_says_otherwise() -> None:
    app = App()
    runs: list[str] = []

    def shared() -> int:
        runs.append("shared")
        return len(runs)

    def fresh() -> int:
        runs.append("fresh")
        return len(runs)

    def above(one: int = Depends(shared), two: int = Depends(fresh, use_cache=False)) -> list[int]:
        return [one, two]

    @app.get("/")
    async def handler(
        a: list[int] = Depends(above),
        b: int = Depends(shared),
        c: int = Depends(fresh, use_cache=False),
    ) -> None:
        assert a[0] == b
        assert a[1] != c

    with TestClient(app) as client:
        for _ in range(2):
            runs.clear()
            assert client.get("/").status_code == 204
            assert runs == ["shared", "fresh", "fresh"]


class Trace:
    """An app whose dependencies write down what they see at their `yield`."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.app = App()

    def resource(self, name: str, after: Callable[[], object] = lambda: None) -> Any:
        async def dependency() -> AsyncIterator[str]:
            self.seen.append(f"{name} begins")
            try:
                yield name
            except BaseException as error:
                self.seen.append(f"{name} sees {type(error).__name__}")
                await asyncio.sleep(0)
                after()
                raise
            self.seen.append(f"{name} ends")
            after()

        return Depends(dependency)

    def serve(self) -> TestClient:
        return TestClient(self.app)


def fail(error: BaseException) -> Callable[[], object]:
    def run() -> object:
        raise error

    return run


def test_generators_end_in_reverse_order_and_see_the_outcome() -> None:
    trace = Trace()
    outer, inner = trace.resource("outer"), trace.resource("inner")

    @trace.app.get("/{what}")
    async def handler(what: str, one: str = outer, two: str = inner) -> str:
        trace.seen.append("handler")
        if what == "fails":
            raise HTTPError(418)
        return one + two

    with trace.serve() as client:
        assert client.get("/works").text == "outerinner"
        begun = ["outer begins", "inner begins", "handler"]
        assert trace.seen == [*begun, "inner ends", "outer ends"]
        trace.seen.clear()
        assert client.get("/fails").status_code == 418
        assert trace.seen == [*begun, "inner sees HTTPError", "outer sees HTTPError"]


def test_what_a_teardown_raises_replaces_the_outcome_and_the_others_still_run() -> None:
    trace = Trace()
    outer = trace.resource("outer")
    inner = trace.resource("inner", fail(HTTPError(409, "from the teardown")))

    @trace.app.get("/{what}")
    async def handler(what: str, one: str = outer, two: str = inner) -> str:
        if what == "fails":
            raise HTTPError(418)
        return what

    with trace.serve() as client:
        for path, last in (("/works", "inner ends"), ("/fails", "inner sees HTTPError")):
            trace.seen.clear()
            assert client.get(path).json()["detail"] == "from the teardown"
            assert trace.seen[-2:] == [last, "outer sees HTTPError"]


def test_a_teardown_that_swallows_changes_nothing() -> None:
    app = App()

    def swallows() -> Iterator[None]:
        with contextlib.suppress(HTTPError):
            yield

    @app.get("/")
    async def handler(one: None = Depends(swallows)) -> None:
        raise HTTPError(418)

    with TestClient(app) as client:
        assert client.get("/").status_code == 418


def test_a_generator_sees_that_its_client_left_and_may_await_then() -> None:
    app = App()
    seen: list[str] = []

    async def resource() -> AsyncIterator[int]:
        try:
            yield 1
        except asyncio.CancelledError:
            await asyncio.sleep(0.001)
            seen.append("given back")
            raise

    @app.middleware
    async def outer(request: Request, call_next: Next) -> object:
        try:
            return await call_next(request)
        finally:
            seen.append("middleware ends")

    @app.get("/")
    async def handler(one: int = Depends(resource)) -> None:
        seen.append("began")
        await asyncio.sleep(600)

    with TestClient(app) as client:
        with socket.create_connection((client.host, client.port or 0), DEADLINE) as raw:
            raw.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            eventually(lambda: seen, "the handler began")
        eventually(lambda: len(seen) == 3, "everything ended")
    assert seen == ["began", "given back", "middleware ends"]


def test_a_generator_yields_exactly_once(caplog: pytest.LogCaptureFixture) -> None:
    app = App(debug=True)

    def never() -> Iterator[int]:
        yield from ()

    def twice() -> Iterator[int]:
        yield 1
        yield 2

    async def never_async() -> AsyncIterator[int]:
        for number in range(0):
            yield number

    async def twice_async() -> AsyncIterator[int]:
        yield 1
        yield 2

    for dependency in (never, twice, never_async, twice_async):

        @app.get(f"/{dependency.__name__}")
        async def handler(one: int = Depends(dependency)) -> int:
            return one

    with TestClient(app) as client, caplog.at_level(logging.CRITICAL, "oxbrook"):
        for name in ("never", "never_async", "twice", "twice_async"):
            answer = client.get(f"/{name}")
            assert answer.status_code == 500
            assert "RuntimeError: a generator dependency has to yield once" in answer.json()["detail"]


def test_dependencies_nested_too_deep_are_a_500(caplog: pytest.LogCaptureFixture) -> None:
    app = App(debug=True)

    def nested(depth: int) -> Any:
        if depth == 0:
            return Depends(lambda: 0)
        below = nested(depth - 1)

        def dependency(value: int = below) -> int:
            return value + 1

        return Depends(dependency)

    @app.get("/19")
    async def deep_enough(value: int = nested(19)) -> int:
        return value

    @app.get("/20")
    async def too_deep(value: int = nested(20)) -> int:
        return value

    with TestClient(app) as client, caplog.at_level(logging.CRITICAL, "oxbrook"):
        assert client.get("/19").json() == 19
        assert client.get("/20").status_code == 500
        assert "nested deeper than 20" in client.get("/20").json()["detail"]


def test_depends_takes_something_to_call() -> None:
    with pytest.raises(TypeError, match="callable"):
        Depends(1)  # type: ignore[arg-type]


def test_dependencies_of_blocking_and_inline_handlers() -> None:
    app = App()
    number: ContextVar[int] = ContextVar("number", default=0)

    async def sets() -> int:
        number.set(5)
        return 5

    @app.get("/blocking", blocking=True)
    def blocking(value: int = Depends(sets)) -> list[int]:
        return [value, number.get()]

    @app.get("/inline", inline=True)
    def inline(value: int = Depends(sets)) -> list[int]:
        return [value, number.get()]

    with TestClient(app) as client:
        assert client.get("/blocking").json() == [5, 5]
        assert client.get("/inline").json() == [5, 5]


# Bodies


class Item(BaseModel):
    name: str
    price: float = 1.5


def test_a_model_is_read_from_the_body_after_the_dependencies() -> None:
    app = App()
    order: list[str] = []

    def guard(request: Request) -> None:
        order.append("guard")
        if request.header("x-key") is None:
            raise HTTPError(403)

    @app.post("/items/{item_id}", status=201)
    async def create(item: Item, item_id: int, allowed: None = Depends(guard)) -> dict[str, object]:
        return {"id": item_id, "item": item}

    @app.put("/items")
    async def echo(*, item: Item) -> Item:
        return item

    with TestClient(app) as client:
        answer = client.post("/items/3", json={"name": "yoke"}, headers={"X-Key": "1"})
        assert (answer.status_code, answer.json()) == (201, {"id": 3, "item": {"name": "yoke", "price": 1.5}})
        assert client.post("/items/3", content=b"nonsense").status_code == 403
        assert client.put("/items", json={"name": "a", "price": 2}).json() == {"name": "a", "price": 2.0}
        for body, error in ((b"", "json_invalid"), (b"{", "json_invalid"), (b'{"price":1}', "missing")):
            answer = client.put("/items", content=body)
            assert answer.status_code == 422
            assert answer.headers["content-type"] == "application/problem+json"
            problem = answer.json()
            assert list(problem) == ["type", "title", "status", "errors"]
            assert problem["title"] == "Unprocessable Content"
            assert [entry["type"] for entry in problem["errors"]] == [error]
            assert set(problem["errors"][0]) >= {"type", "loc", "msg", "input", "url"}


class Shouting(BaseModel):
    """A class with ways of its own, in and out."""

    name: str

    @classmethod
    def model_validate_json(cls, json_data: Any, **_options: Any) -> Self:
        return cls(name=json_data.decode().upper())

    def model_dump_json(self, **_options: Any) -> str:
        return json.dumps({"shouted": self.name})


async def passes(request: Request, call_next: Next) -> Reply:
    return await call_next(request)


@pytest.mark.parametrize("middleware", [[], [passes], [passes, passes]])
def test_a_model_is_given_wherever_it_stands_and_whatever_is_around(middleware: list[Any]) -> None:
    app = App()
    for each in middleware:
        app.middleware(each)

    @app.post("/first/{number}")
    async def first(item: Item, request: Request, number: int, q: str = "-") -> list[object]:
        return [item, json.loads(request.body), number, q]

    @app.post("/last/{number}")
    async def last(number: int, request: Request, item: Item) -> list[object]:
        return [item, json.loads(request.body), number]

    @app.post("/middle/{number}")
    async def middle(number: int, item: Item, *, q: str, request: Request) -> list[object]:
        return [item, json.loads(request.body), number, q]

    @app.post("/named/{number}")
    async def named(number: int, *, q: str, item: Item) -> list[object]:
        return [item, number, q]

    @app.post("/inline", inline=True)
    def inline(item: Item) -> Item:
        return item

    @app.post("/blocking", blocking=True)
    def blocking(item: Item) -> Item:
        return item

    @app.post("/own")
    async def own(item: Shouting) -> Shouting:
        return item

    @app.post("/varied")
    async def varied(item: Item, kind: str) -> object:
        return {"item": item, "dict": {"a": 1}, "other": Finite(name="b"), "own": Shouting(name="c")}[kind]

    sent = {"name": "yoke", "price": 1.0}
    with TestClient(app) as client:
        for path, answer in {
            "/first/3?q=x": [sent, sent, 3, "x"],
            "/first/3": [sent, sent, 3, "-"],
            "/last/3": [sent, sent, 3],
            "/middle/3?q=x": [sent, sent, 3, "x"],
            "/named/3?q=x": [sent, 3, "x"],
            "/inline": sent,
            "/blocking": sent,
        }.items():
            assert client.post(path, json=sent).json() == answer, path
            refused = client.post(path, json={"price": 1})
            assert (refused.status_code, refused.json()["errors"][0]["loc"]) == (422, ["name"]), path
        assert client.post("/own", content=b"yoke").json() == {"shouted": "YOKE"}
        # What a route returned first says nothing about what comes next.
        answers: dict[str, object] = {"item": sent, "dict": {"a": 1}}
        answers |= {"other": {"name": "b", "price": 1.5}, "own": {"shouted": "c"}}
        for kind in (*answers, *reversed(answers), *answers):
            assert client.post(f"/varied?kind={kind}", json=sent).json() == answers[kind], kind


class Finite(BaseModel):
    name: str
    price: float = Field(default=1.5, allow_inf_nan=False)


REJECTED = {
    b'{"name":"a","price":NaN}': None,
    b'{"name":"a","price":-Infinity}': None,
    b'{"name":"a","price":1e999}': None,
    b"\xff": "\ufffd",
    b'{"name":"\xed\xa0\x80"}': '{"name":"\ufffd\ufffd\ufffd"}',
    b"\x07{\xd9": "\x07{\ufffd",
    b'{"name":"a","price":[NaN]}': [None],
}


@pytest.mark.parametrize("body", REJECTED)
def test_r38_whatever_a_rejected_body_holds_its_422_is_json(body: bytes) -> None:
    def refuse(constant: str) -> object:
        raise AssertionError(f"{constant} is no JSON")

    app = App()

    @app.post("/items")
    async def create(item: Finite) -> Finite:
        return item

    with TestClient(app) as client:
        answer = client.post("/items", content=body)
        assert answer.status_code == 422
        (entry,) = json.loads(answer.content, parse_constant=refuse)["errors"]
        assert entry["input"] == REJECTED[body]
        keys = [key for key in ("type", "loc", "msg", "input", "ctx", "url") if key in entry]
        assert list(entry) == keys, "in pydantic's order"


def test_a_handler_has_one_body() -> None:
    app = App()
    with pytest.raises(TypeError, match="declares two bodies"):

        @app.post("/")
        async def two(one: Item, other: Item) -> None: ...

    with pytest.raises(TypeError, match="pydantic model"):

        @app.post("/")
        async def optional(one: Item | None) -> None: ...


# Exception handlers


def test_an_exception_is_answered_by_the_handler_of_the_nearest_class(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = App()

    class Base(Exception):
        pass

    class Derived(Base):
        pass

    @app.exception_handler(Base)
    async def on_base(request: Request, exc: Base) -> Reply:
        return Reply({"path": request.path, "text": str(exc)}, status=409)

    @app.exception_handler(ValueError)
    async def on_value(request: Request, exc: ValueError) -> None:
        raise HTTPError(400, "from the handler")

    @app.exception_handler(KeyError)
    async def on_key(request: Request, exc: KeyError) -> None:
        raise RuntimeError("in the handler")

    @app.exception_handler(HTTPError)
    async def on_http(request: Request, exc: HTTPError) -> Response:
        return Response(f"{exc.status}", exc.status, "text/plain")

    @app.exception_handler(RequestValidationError)
    async def on_body(request: Request, exc: RequestValidationError) -> Reply:
        return Reply([entry["type"] for entry in exc.errors], 400)

    errors = {"derived": Derived("d"), "value": ValueError(), "key": KeyError(), "http": HTTPError(418)}

    @app.get("/{which}")
    async def raises(which: str) -> None:
        raise errors.get(which, TypeError("nobody"))

    @app.post("/")
    async def body(item: Item) -> None: ...

    with TestClient(app) as client:
        answer = client.get("/derived")
        assert (answer.status_code, answer.json()) == (409, {"path": "/derived", "text": "d"})
        assert client.get("/value").json()["detail"] == "from the handler"
        assert client.get("/http").text == "418"
        assert client.post("/", content=b"{}").json() == ["missing"]
        for path, text in (("/key", "in the handler"), ("/other", "nobody")):
            caplog.clear()
            answer = client.get(path)
            assert answer.status_code == 500
            assert "detail" not in answer.json(), "the text stays in the log"
            (record,) = [record for record in caplog.records if record.name == "oxbrook"]
            assert record.exc_info is not None
            assert text in str(record.exc_info[1])
        # What Rust answers never gets here.
        assert client.get("/a/b").json()["title"] == "Not Found"


def test_bad_exception_handlers_are_refused() -> None:
    app: Any = App()
    for cls in (BaseException, KeyboardInterrupt, "ValueError", int):
        with pytest.raises(TypeError, match="subclass of Exception"):
            app.exception_handler(cls)

    with pytest.raises(TypeError, match="async function"):
        app.exception_handler(ValueError)(lambda request, exc: None)

    async def handler(request: Request, exc: ValueError) -> None: ...

    app.exception_handler(ValueError)(handler)
    with pytest.raises(ValueError, match="already"):
        app.exception_handler(ValueError)(handler)


# Middleware


def test_middleware_runs_in_order_and_sees_replies_never_a_mapped_exception() -> None:
    app = App()
    seen: list[object] = []

    @app.exception_handler(LookupError)
    async def on_lookup(request: Request, exc: LookupError) -> Reply:
        return Reply("mapped", 404)

    @app.middleware
    async def first(request: Request, call_next: Next) -> object:
        seen.append("first")
        reply = await call_next(request)
        seen.append(reply.status if reply.status is not None else getattr(reply.value, "status", reply.value))
        reply.headers = {**(reply.headers or {}), "X-First": "1"}
        return reply

    @app.middleware
    async def second(request: Request, call_next: Next) -> object:
        seen.append("second")
        if request.header("x-stop"):
            return HTML("<p>stopped</p>")
        if request.header("x-fail"):
            raise LookupError
        return await call_next(request)

    @app.get("/{what}")
    async def handler(what: str) -> object:
        seen.append("handler")
        if what == "lookup":
            raise KeyError(what)
        if what == "http":
            raise HTTPError(402)
        return {"what": what}

    with TestClient(app) as client:
        answer = client.get("/x")
        assert (answer.json(), answer.headers["x-first"]) == ({"what": "x"}, "1")
        assert seen == ["first", "second", "handler", {"what": "x"}]
        for path, headers, status, text in (
            ("/lookup", {}, 404, "mapped"),
            ("/x", {"X-Fail": "1"}, 404, "mapped"),
            ("/x", {"X-Stop": "1"}, 200, "<p>stopped</p>"),
        ):
            seen.clear()
            answer = client.get(path, headers=headers)
            assert (answer.status_code, answer.text, answer.headers["x-first"]) == (status, text, "1")
            assert seen[:2] == ["first", "second"]
            assert seen[-1] == status
        answer = client.get("/http")
        assert (answer.status_code, answer.headers["x-first"]) == (402, "1")
        assert answer.headers["content-type"] == "application/problem+json"
        assert "x-first" not in client.get("/not/found").headers


def test_an_unmapped_exception_passes_through_middleware_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = App()
    seen: list[str] = []

    @app.middleware
    async def watch(request: Request, call_next: Next) -> object:
        try:
            return await call_next(request)
        except ValueError as error:
            seen.append(str(error))
            raise

    @app.get("/")
    async def handler() -> None:
        raise ValueError("unmapped")

    with TestClient(app) as client:
        assert client.get("/").status_code == 500
    assert seen == ["unmapped"]
    assert len([record for record in caplog.records if record.name == "oxbrook"]) == 1


def test_middleware_has_to_be_an_async_function() -> None:
    for owner in (loose, a_router()):
        with pytest.raises(TypeError, match="middleware must be an async function"):
            owner.middleware(lambda request, call_next: None)


# Reply, Redirect, HTML


def test_a_reply_adds_to_what_its_value_is() -> None:
    app = App()

    async def numbers() -> AsyncIterator[str]:
        yield "12"

    base = Response(b"body", 201, "text/x", {"X-A": "a", "X-B": "b", "Set-Cookie": "old=1"})
    replies: dict[str, Reply] = {
        "text": Reply("text", 202),
        "none": Reply(),
        "none-201": Reply(None, 201),
        "none-200": Reply(None, 200),
        "json": Reply({"a": 1}, headers={"X-Many": ["1", "2"]}),
        "response": Reply(base, headers={"x-a": "changed"}).set_cookie("new", "2", secure=False),
        "status": Reply(base, 299),
        "type": Reply("x", headers={"Content-Type": "text/css"}),
        "stream": Reply(Stream(numbers()), 203, {"X-S": "s"}),
        "length": Reply(Stream(numbers()), headers={"Content-Length": "2"}),
    }

    @app.get("/{name}")
    async def handler(name: str) -> Reply:
        return replies[name]

    with TestClient(app) as client:
        get = {name: client.get(f"/{name}") for name in replies}
    assert (get["text"].status_code, get["text"].text) == (202, "text")
    assert get["text"].headers["content-type"] == "text/plain; charset=utf-8"
    assert get["none"].status_code == 204
    assert (get["none-201"].status_code, get["none-201"].content) == (201, b"")
    assert (get["none-200"].status_code, get["none-200"].headers["content-length"]) == (200, "0")
    assert get["json"].headers.get_list("x-many") == ["1", "2"]
    answer = get["response"]
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (201, b"body", "text/x")
    assert answer.headers.get_list("x-a") == ["changed"]
    assert answer.headers["x-b"] == "b"
    cookies = answer.headers.get_list("set-cookie")
    assert cookies == ["old=1", "new=2; Path=/; HttpOnly; SameSite=Lax"]
    assert get["status"].status_code == 299
    assert get["type"].headers.get_list("content-type") == ["text/css"]
    assert (get["stream"].status_code, get["stream"].text, get["stream"].headers["x-s"]) == (203, "12", "s")
    assert get["length"].headers["content-length"] == "2"


def test_redirect_and_html() -> None:
    answer = Redirect("/zoë?q=ü")
    assert (answer.status, answer.headers, answer.content_type) == (
        307,
        {"Location": "/zo%C3%AB?q=%C3%BC"},
        None,
    )
    assert Redirect("/a b|c%20d?e=[f]").headers == {"Location": "/a%20b%7Cc%20d?e=[f]"}
    assert Redirect("/x", 303).set_cookie("a", "b").header_list() is not None
    assert isinstance(Redirect("/x").set_cookie("a"), Redirect)
    for url, status in (("/x", 200), ("/x", 304), ("/x\r\nSet-Cookie: a=b", 307), ("/x\n", 302)):
        with pytest.raises(ValueError, match="Redirect"):
            Redirect(url, status)
    app = App()

    @app.get("/old")
    async def old() -> Redirect:
        return Redirect("/new", 308)

    @app.get("/new")
    async def new() -> HTML:
        return HTML("<p>ü</p>")

    with TestClient(app) as client:
        moved = client.get("/old")
        assert (moved.status_code, moved.headers["location"], moved.content) == (308, "/new", b"")
        assert "content-type" not in moved.headers
        page = client.get("/new")
        assert (page.text, page.headers["content-type"]) == ("<p>ü</p>", "text/html; charset=utf-8")


# Routers


def test_routers_nest_with_their_prefixes_and_middleware() -> None:
    app = App()
    seen: list[str] = []

    def named(name: str) -> Callable[[Request, Next], Awaitable[object]]:
        async def middleware(request: Request, call_next: Next) -> object:
            seen.append(name)
            return await call_next(request)

        return middleware

    inner = Router("/inner")
    inner.middleware(named("inner"))

    @inner.get("")
    async def root(user: int) -> list[object]:
        return ["root", user]

    @inner.get("/{item}")
    async def item(item: str, user: int) -> list[object]:
        return [item, user]

    outer = Router("/users/{user}")
    outer.middleware(named("outer"))

    @outer.post("/x", status=201)
    async def own(user: int) -> int:
        return user

    outer.include(inner, "/deep")
    app.middleware(named("app"))
    app.include(outer, "/api")
    assert [(route.method, route.path) for route in app.routes] == [
        ("POST", "/api/users/{user}/x"),
        ("GET", "/api/users/{user}/deep/inner"),
        ("GET", "/api/users/{user}/deep/inner/{item}"),
    ]
    with TestClient(app) as client:
        assert client.get("/api/users/7/deep/inner").json() == ["root", 7]
        assert seen == ["app", "outer", "inner"]
        seen.clear()
        assert client.get("/api/users/7/deep/inner/y").json() == ["y", 7]
        assert client.get("/api/users/x/deep/inner/y").status_code == 422
        seen.clear()
        assert client.post("/api/users/7/x").status_code == 201
        assert seen == ["app", "outer"]
    for add in (
        lambda: inner.get("/late"),
        lambda: outer.include(Router()),
        lambda: outer.middleware(named("x")),
    ):
        with pytest.raises(RuntimeError, match="already been included"):
            add()


def test_a_router_may_be_included_in_two_places() -> None:
    app = App()
    shared = Router("/shared")

    @shared.get("/")
    async def handler(request: Request) -> str:
        return request.path

    app.include(shared, "/a")
    app.include(shared, "/b")
    with TestClient(app) as client:
        assert [client.get(path).text for path in ("/a/shared/", "/b/shared/")] == [
            "/a/shared/",
            "/b/shared/",
        ]


def test_bad_routers_are_refused_where_they_are_declared() -> None:
    for prefix in ("x", "/x/", "/"):
        with pytest.raises(ValueError, match="prefix must start with '/'"):
            Router(prefix)
        with pytest.raises(ValueError, match="prefix must start with '/'"):
            App().include(Router(), prefix)
    with pytest.raises(TypeError, match="prefix must be a str"):
        a_router(1)
    with pytest.raises(TypeError, match="takes a Router"):
        loose.include("router")
    router = Router()
    with pytest.raises(ValueError, match=r"must start with.*test_composition.py:\d+"):
        router.get("x")
    with pytest.raises(ValueError, match="include itself"):
        router.include(router)
    outer = Router()
    outer.include(router)
    with pytest.raises(RuntimeError, match="already been included"):
        router.include(outer)

    app = App()

    @app.get("/a/b")
    async def first() -> None: ...

    clash = Router("/a")

    @clash.get("/b")
    async def second() -> None: ...

    with pytest.raises(ValueError, match=r"GET /a/b conflicts with GET /a/b, registered at .*\.py:\d+"):
        app.include(clash)
    assert [route.path for route in app.routes] == ["/a/b"]

    needs = Router("/{tenant}")
    with pytest.raises(TypeError, match=r"does not accept the path placeholder \{tenant\}"):

        @needs.get("/x")
        async def third() -> None: ...
