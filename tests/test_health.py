"""Health probes (api.md 16.1)."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from oxbrook import CORS, App, Health, Reply, Request
from oxbrook.testing import TestClient
from tests.support import DEADLINE, Command, eventually

a_health: Any = Health
an_app: Any = App
NO_STORE = "no-store"


def probe(client: TestClient, path: str, method: str = "GET", **options: Any) -> tuple[int, Any]:
    """Ask, check what every probe has in common, and return status and body."""
    answer = client.request(method, path, **options)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == NO_STORE
    return answer.status_code, answer.json() if answer.content else None


def test_probes_answer_get_and_head_and_are_in_no_document() -> None:
    app = App(health=Health(), access_log=True)
    with TestClient(app) as client:
        assert probe(client, "/livez") == (200, {"status": "ok"})
        assert probe(client, "/readyz?x=1") == (200, {"status": "ready"})
        assert client.get("/livez").content == b'{"status":"ok"}'
        for path, length in (("/livez", 15), ("/readyz", 18)):
            assert probe(client, path, "HEAD") == (200, None)
            assert client.head(path).headers["content-length"] == str(length)
            assert client.post(path).status_code == 404
            assert client.get(path + "/").status_code == 404
        assert client.get("/openapi.json").json()["paths"] == {}


def test_probes_stand_at_their_own_paths_before_everything_else() -> None:
    app = App(health=Health(live="/health/live", ready="/health/ready"), cors=CORS(["https://example.com"]))

    @app.get("/health/live")
    async def mine() -> str:
        return "mine"

    @app.post("/health/live")
    async def posted() -> str:
        return "posted"

    with TestClient(app) as client:
        origin = {"origin": "https://example.com"}
        answer = client.get("/health/live", headers=origin)
        assert answer.json() == {"status": "ok"}
        assert "access-control-allow-origin" not in answer.headers
        assert client.post("/health/live").text == "posted"
        assert client.get("/livez").status_code == 404


def test_without_health_there_are_no_probes() -> None:
    app = App()
    assert app.health is None
    with TestClient(app) as client:
        assert client.get("/livez").status_code == 404


@pytest.mark.parametrize("workers", [1, 2])
def test_checks_run_on_every_loop_with_its_state(workers: int, caplog: pytest.LogCaptureFixture) -> None:
    health = Health()
    seen: list[tuple[int, Any]] = []
    outcome: dict[str, Any] = {"database": True}

    async def worker_lifespan(_app: App) -> AsyncIterator[dict[str, object]]:
        yield {"loop": asyncio.get_running_loop()}

    @health.check
    async def database(state: Any) -> object:
        assert state.loop is asyncio.get_running_loop()
        seen.append((threading.get_ident(), state.loop))
        if isinstance(outcome["database"], Exception):
            raise outcome["database"]
        return outcome["database"]

    @health.check(name="the cache")
    async def cache(state: Any) -> None:
        await asyncio.sleep(0)

    around: list[str] = []

    async def sees(request: Request, call_next: Callable[[Request], Awaitable[Reply]]) -> Reply:
        around.append(request.path)
        return await call_next(request)

    app = App(health=health, worker_lifespan=worker_lifespan)
    app.middleware(sees)
    with TestClient(app, workers=workers) as client:
        ready = {"status": "ready", "checks": {"database": "ok", "the cache": "ok"}}
        assert probe(client, "/readyz") == (200, ready)
        assert len({thread for thread, _ in seen}) == workers
        assert probe(client, "/readyz", "HEAD") == (200, None)
        assert around == ["/readyz", "/readyz"]
        assert probe(client, "/livez") == (200, {"status": "ok"})
        failed = {"status": "unavailable", "checks": {"database": "failed", "the cache": "ok"}}
        for bad in (False, ValueError("the password is hunter2")):
            caplog.clear()
            outcome["database"] = bad
            assert probe(client, "/readyz") == (503, failed)
            assert [(record.name, record.levelname) for record in caplog.records] == [
                ("oxbrook.health", "ERROR")
            ] * workers
        outcome["database"] = None
        assert probe(client, "/readyz") == (200, ready)
        assert "/readyz" not in client.get("/openapi.json").json()["paths"]


@pytest.mark.parametrize("workers", [1, 2])
def test_checks_have_their_time_together(workers: int, caplog: pytest.LogCaptureFixture) -> None:
    health = Health(timeout=0.5)
    cancelled = threading.Event()

    @health.check
    async def slow(state: Any) -> None:
        try:
            await asyncio.sleep(DEADLINE * 10)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    @health.check
    async def quick(state: Any) -> bool:
        return True

    with TestClient(App(health=health), workers=workers) as client:
        unavailable = {"status": "unavailable", "checks": {"slow": "timeout", "quick": "ok"}}
        assert probe(client, "/readyz") == (503, unavailable)
        assert cancelled.wait(DEADLINE)
    assert "'slow' took longer than 0.5 s" in caplog.text


def test_a_loop_that_leaves_requests_waiting_is_stalled() -> None:
    app = App(health=Health(stall_after=0.05))
    may_go = threading.Event()
    began = threading.Event()

    @app.get("/held", inline=True)
    def held() -> str:
        began.set()
        may_go.wait(DEADLINE)
        return "went"

    with TestClient(app, workers=1) as client:
        asked = [threading.Thread(target=client.get, args=("/held",)) for _ in range(2)]
        asked[0].start()
        assert began.wait(DEADLINE)
        assert probe(client, "/livez") == (200, {"status": "ok"}), "nothing waits for the loop"
        asked[1].start()
        stalled = (503, {"status": "stalled", "loops": [0]})
        eventually(lambda: probe(client, "/livez") == stalled, "the second request waits")
        assert probe(client, "/readyz") == stalled
        may_go.set()
        for thread in asked:
            thread.join(DEADLINE)
        assert probe(client, "/livez") == (200, {"status": "ok"})
        assert probe(client, "/readyz") == (200, {"status": "ready"})


def test_a_loop_that_rested_long_is_not_stalled_by_its_next_request() -> None:
    app = App(health=Health(stall_after=0.02))

    @app.get("/")
    async def hello() -> str:
        return "hello"

    with TestClient(app, workers=1) as client:
        client.get("/")
        time.sleep(0.1)
        for _ in range(200):
            client.get("/")
            assert probe(client, "/livez") == (200, {"status": "ok"})


DRAINING = """
    import asyncio

    from oxbrook import App, Health

    app = App(health=Health(drain_delay={delay}))

    @app.get("/")
    async def hello():
        return "hello"

    @app.get("/wait")
    async def wait():
        print("began", flush=True)
        await asyncio.sleep(1.0)
        return "waited"
"""


def test_a_stop_fails_readiness_and_serves_on_for_the_delay(serve: Callable[..., Command]) -> None:
    server = serve(DRAINING.replace("{delay}", "600"))
    assert httpx.get(f"{server.url}/readyz", timeout=DEADLINE).json() == {"status": "ready"}
    server.process.send_signal(signal.SIGTERM)
    draining = {"status": "draining"}
    eventually(
        lambda: httpx.get(f"{server.url}/readyz", timeout=DEADLINE).json() == draining, "the stop is known"
    )
    answer = httpx.get(f"{server.url}/readyz", timeout=DEADLINE)
    assert (answer.status_code, answer.headers["cache-control"]) == (503, NO_STORE)
    # New connections too.
    assert httpx.get(f"{server.url}/", timeout=DEADLINE).text == "hello"
    assert httpx.get(f"{server.url}/livez", timeout=DEADLINE).json() == {"status": "ok"}
    # A second stop ends the delay.
    server.process.send_signal(signal.SIGINT)
    assert server.ended() == 0, server.err.text


def test_the_delay_ends_by_itself_and_requests_in_flight_are_answered(
    serve: Callable[..., Command],
) -> None:
    server = serve(DRAINING.replace("{delay}", "0.2"))
    answers: list[str] = []
    waiter = threading.Thread(
        target=lambda: answers.append(httpx.get(f"{server.url}/wait", timeout=DEADLINE).text)
    )
    waiter.start()
    server.out.wait_for("began")
    assert server.stop() == 0
    waiter.join(DEADLINE)
    assert answers == ["waited"]


def test_without_a_delay_a_probe_on_an_open_connection_still_says_draining(
    serve: Callable[..., Command],
) -> None:
    server = serve(DRAINING.replace("{delay}", "0"), "--shutdown-grace", "20")
    host, port = server.url.removeprefix("http://").split(":")
    with (
        socket.create_connection((host, int(port)), DEADLINE) as raw,
        socket.create_connection((host, int(port)), DEADLINE) as other,
    ):
        other.sendall(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
        server.out.wait_for("began")
        raw.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert raw.recv(65536).endswith(b"hello")
        # Its head is not whole yet, so a drain waits for it.
        raw.sendall(b"GET /readyz HTTP/1.1\r\nHost: a\r\n")
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: not accepts(host, int(port)), "it drains")
        raw.sendall(b"\r\n")
        answer = b""
        while piece := raw.recv(65536):
            answer += piece
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nconnection: close\r\n" in answer.lower()
        assert answer.endswith(b'{"status":"draining"}')
    assert server.ended() == 0


def accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), DEADLINE).close()
    except OSError:
        return False
    return True


def test_bad_health_is_refused_where_it_is_declared() -> None:
    for options, text in (
        ({"live": "livez"}, "live: "),
        ({"ready": "/{x}"}, "ready cannot hold placeholders"),
        ({"live": "/z", "ready": "/z"}, "live and ready cannot both be '/z'"),
        ({"stall_after": 0}, "stall_after must be a number of seconds, above 0, not 0"),
        ({"stall_after": float("nan")}, "stall_after must be"),
        ({"timeout": -1.0}, "timeout must be"),
        ({"timeout": True}, "timeout must be"),
        ({"timeout": "1"}, "timeout must be"),
        ({"drain_delay": -0.5}, "drain_delay must be a number of seconds, 0 or more, not -0.5"),
        ({"drain_delay": float("inf")}, "drain_delay must be"),
    ):
        with pytest.raises(ValueError, match="^" + text.replace("{", "\\{")):
            a_health(**options)
    with pytest.raises(TypeError, match="live must be a str, not int"):
        a_health(live=1)
    with pytest.raises(TypeError):
        a_health("/livez")
    with pytest.raises(TypeError, match="health must be a Health, not bool"):
        an_app(health=True)
    health = a_health()

    def plain(state: Any) -> None: ...

    async def check(state: Any) -> None: ...

    with pytest.raises(TypeError, match="a health check must be an async function"):
        health.check(plain)
    with pytest.raises(TypeError, match="the name of a health check is a str, not int"):
        health.check(name=1)(check)
    health.check(check)
    with pytest.raises(ValueError, match="there is a health check named 'check' already"):
        health.check(check)
    health.check(name="other")(check)
    assert list(health.checks) == ["check", "other"]
    assert logging.getLogger("oxbrook.health").parent is logging.getLogger("oxbrook")
