"""The invariants of ARCHITECTURE.md that show in Python only: 1, 2, 6, 7 and 8."""

from __future__ import annotations

import asyncio
import enum
import mmap
import threading
import uuid
from collections.abc import Callable
from contextvars import ContextVar
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import httpx
import pytest

from oxbrook import App, HTTPError, Request, Response, Stream
from oxbrook.testing import TestClient
from tests.support import DEADLINE, Command, eventually

SPINNING = """
    import mmap
    import sys
    import time

    from oxbrook import App

    app = App()
    sys.setswitchinterval(10_000)

    @app.get("/spin", inline=True)
    def spin():
        with open("flags", "r+b") as file, mmap.mmap(file.fileno(), 2) as flags:
            flags[0] = 1
            # Nothing in this loop lets another thread have the GIL.
            end = time.perf_counter() + 60
            while not flags[1] and time.perf_counter() < end:
                pass
        return "done"

    @app.get("/hello")
    async def hello():
        return "hello"

    @app.get("/number/{n}")
    async def number(n: int):
        return n
"""


def test_invariant_1_io_threads_work_while_python_is_held(
    serve: Callable[..., Command], tmp_path: Path
) -> None:
    (tmp_path / "flags").write_bytes(b"\0\0")
    server = serve(SPINNING, "--workers", "1", "--request-timeout", "0")
    url = server.url
    answers: dict[str, int] = {}

    def ask(path: str) -> None:
        answers[path] = httpx.get(url + path, timeout=DEADLINE).status_code

    threads = [threading.Thread(target=ask, args=(path,)) for path in ("/spin", "/hello")]
    with (tmp_path / "flags").open("r+b") as file, mmap.mmap(file.fileno(), 2) as flags:
        threads[0].start()
        eventually(lambda: flags[0], "the handler holds the interpreter")
        # Queued behind it: the I/O thread hands this over and goes on.
        threads[1].start()
        for path, status in (("/nothing", 404), ("/number/x", 422)):
            assert httpx.get(url + path, timeout=DEADLINE).status_code == status
        assert answers == {}, "answered while nobody else had the interpreter"
        flags[1] = 1
    for thread in threads:
        thread.join(DEADLINE)
    assert answers == {"/spin": 200, "/hello": 200}


def test_invariant_2_loops_wait_detached_and_their_threads_are_joined() -> None:
    app = App()

    @app.get("/")
    async def who() -> list[object]:
        thread = threading.current_thread()
        return [thread.name, thread.daemon]

    before = set(threading.enumerate())
    with TestClient(app, workers=2) as client:
        # This thread shares the interpreter with the loops: were they to wait attached, it would never go on.
        name, is_daemon = client.get("/").json()
        assert not is_daemon, name
        started = set(threading.enumerate()) - before
        assert name in {thread.name for thread in started}
    assert not [thread for thread in started if thread.is_alive()]


class Colour(enum.Enum):
    RED = "red"
    NUL = "nul\0"


class Level(enum.Enum):
    LOW = 1
    HIGH = -(2**63)


NUMBERS = [
    "0", "-0", "+7", "007", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e400",
    "1e308", "-1e-400", "1.", ".5", "1e5", "1_000", " 1", "1 ", "٣", "nan", "inf", "Infinity", "0x10", "",
    "1" * 400, "1e999999999999", "-", "+", "--1", "1e", "0.1e-7",
]  # fmt: skip
TIMES = [
    "0001-01-01", "9999-12-31", "0000-01-01", "10000-01-01", "2026-02-29", "2024-02-29", "20260230",
    "20241231", "2024-366", "2023-366", "2024366", "2020-W53-7", "2021-W53-1", "2026-W00-1", "2026-W01-8",
    "9999-W52-7", "0001-W01-1", "2026-01-02T03:04", "2026-01-02T24:00", "2026-01-02T23:59:60",
    "2026-01-02T03:04:05.1234567", "2026-01-02T03:04:05.", "2026-01-02T03:04:05Z",
    "2026-01-02T03:04:05+23:59", "2026-01-02T03:04:05+24:00", "2026-01-02T03:04:05-0000",
    "2026-01-02T03:04:05+05", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59",
    "2026-01-02 03:04", "2026-01-02T3:4",
]  # fmt: skip
OTHERS = [
    "0" * 32, "f" * 32, "{12345678-1234-5678-1234-567812345678}",
    "urn:uuid:12345678-1234-5678-1234-567812345678", "12345678-1234-5678-1234-56781234567", "red", "RED",
    "nul\0", "1", "-9223372036854775808", "a", "true", "True", "on", "\U0001f980", "%ff", "+",
    "\ud800".encode("utf-8", "surrogatepass").hex(),
]  # fmt: skip


def test_invariant_6_what_rust_validated_python_accepts(caplog: pytest.LogCaptureFixture) -> None:
    app = App()
    types: dict[str, Any] = {
        "str": str, "int": int, "float": float, "bool": bool, "uuid": uuid.UUID, "date": date,
        "datetime": datetime, "decimal": Decimal, "colour": Colour, "level": Level,
        "literal": Literal["a", 1],
    }  # fmt: skip

    def register(name: str, kind: Any) -> None:
        async def by_path(value: Any) -> str:
            return type(value).__name__

        async def by_query(value: Any) -> str:
            return type(value[0]).__name__

        by_path.__annotations__["value"] = kind
        by_query.__annotations__["value"] = list[kind]
        app.get(f"/{name}/{{value}}")(by_path)
        app.get(f"/{name}")(by_query)

    for name, kind in types.items():
        register(name, kind)
    accepted = 0
    with TestClient(app) as client:
        for name in types:
            for text in NUMBERS + TIMES + OTHERS:
                coded = quote(text, safe="")
                paths = [f"/{name}?value={coded}"] + ([f"/{name}/{coded}"] if coded else [])
                statuses = {client.get(path).status_code for path in paths}
                assert len(statuses) == 1, (name, text, statuses)
                assert statuses <= {200, 422}, (name, text, statuses)
                accepted += statuses == {200}
    assert accepted > 100
    assert caplog.records == []


class Secret(Exception):
    def __str__(self) -> str:
        return "secret"


@pytest.mark.parametrize("debug", [False, True])
def test_invariant_7_no_exception_text_reaches_a_client_unless_debug(debug: bool) -> None:
    app = App(debug=debug)

    @app.get("/raises")
    async def raises() -> None:
        raise Secret

    @app.get("/later")
    async def later() -> None:
        await asyncio.sleep(0)
        raise ExceptionGroup("secret", [Secret()])

    @app.get("/blocking", blocking=True)
    def blocking() -> None:
        raise Secret

    @app.get("/inline", inline=True)
    def inline() -> None:
        raise Secret

    @app.get("/exit")
    async def leaves() -> None:
        raise SystemExit("secret")

    @app.get("/encodes")
    async def encodes() -> object:
        class Row:
            def keys(self) -> list[str]:
                raise Secret

            def __getitem__(self, _key: str) -> str:
                raise Secret

        return Row()

    @app.get("/header")
    async def header() -> Response:
        return Response(b"", headers={"x": "secret\r\n"})

    @app.get("/stream")
    async def stream() -> Stream:
        async def source() -> Any:
            yield b"first"
            raise Secret

        return Stream(source())

    @app.get("/meant")
    async def meant() -> None:
        raise HTTPError(409, "meant for you")

    with TestClient(app) as client:
        for path in ("/raises", "/later", "/blocking", "/inline", "/exit", "/encodes", "/header"):
            answer = client.get(path)
            assert answer.status_code == 500, path
            assert debug or "secret" not in answer.text + str(answer.headers), path
        assert ("secret" in client.get("/raises").text) == debug
        with pytest.raises(httpx.RemoteProtocolError), client.stream("GET", "/stream") as broken:
            assert "secret" not in "".join(broken.iter_text())
        assert client.get("/meant").json()["detail"] == "meant for you"


def test_invariant_8_a_request_stays_on_its_loop_and_its_context_is_its_own() -> None:
    app = App()
    mark: ContextVar[str] = ContextVar("mark", default="clean")

    def here() -> list[object]:
        task = asyncio.current_task()
        assert task is not None
        return [id(asyncio.get_running_loop()), id(task.get_loop()), threading.get_ident(), id(task)]

    @app.get("/{token}")
    async def handler(request: Request, token: str) -> list[object]:
        first, before = mark.get(), here()
        mark.set(token)
        await asyncio.sleep(0.001 if int(token) % 2 else 0)
        return [first, mark.get(), before == here(), before[0] == before[1], before[0]]

    async def ask(base_url: str) -> list[list[object]]:
        async with httpx.AsyncClient(base_url=base_url, timeout=DEADLINE) as client:
            answers = await asyncio.gather(*(client.get(f"/{number}") for number in range(300)))
            return [answer.json() for answer in answers]

    with TestClient(app, workers=2) as client:
        rows = asyncio.run(ask(client.base_url))
    assert [row[:4] for row in rows] == [["clean", str(number), True, True] for number in range(300)]
    assert len({row[4] for row in rows}) == 2, "both loops took part"
