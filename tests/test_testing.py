"""`TestClient` and `free_port` (api.md 17)."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from oxbrook import App, HTTPError, Request, Stream
from oxbrook.testing import TestClient, free_port


def echo_app() -> App:
    app = App()

    async def echo(request: Request) -> dict[str, object]:
        return {"method": request.method, "query": request.query, "body": request.body.decode()}

    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        app.route(method, "/echo")(echo)

    @app.get("/stream")
    async def stream() -> Stream:
        async def pieces() -> AsyncIterator[bytes]:
            for piece in (b"one", b"two"):
                yield piece

        return Stream(pieces())

    @app.get("/moved")
    async def moved() -> None:
        raise HTTPError(404, "gone")

    return app


def test_every_method_sends_its_method_and_returns_the_response() -> None:
    with TestClient(echo_app()) as client:
        for name in ("get", "post", "put", "patch", "delete", "options"):
            response = getattr(client, name)("/echo", params={"a": "1"})
            assert response.status_code == 200
            assert (response.json()["method"], response.json()["query"]) == (name.upper(), "a=1")
        assert client.head("/echo").content == b""
        assert client.request("POST", "/echo", content=b"hello").json()["body"] == "hello"
        assert client.post("/echo", json={"a": 1}).json()["body"] == '{"a":1}'
        assert client.get("/moved").json()["detail"] == "gone"
        with client.stream("GET", "/stream") as response:
            assert b"".join(response.iter_bytes()) == b"onetwo"


def test_the_addresses_are_those_of_the_server() -> None:
    client = TestClient(echo_app())
    with pytest.raises(RuntimeError, match="not started"):
        client.http  # noqa: B018
    with client:
        assert client.host == "127.0.0.1"
        assert client.port > 0
        assert client.base_url == f"http://127.0.0.1:{client.port}"
        assert client.ws_url == f"ws://127.0.0.1:{client.port}"
        socket.create_connection((client.host, client.port)).close()
    with pytest.raises(RuntimeError, match="not started"):
        client.get("/echo")


def test_a_client_starts_again_after_a_stop_and_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    client = TestClient(echo_app())
    for _ in range(3):
        client.start()
        assert client.get("/echo").status_code == 200
        with pytest.raises(RuntimeError, match="started already"):
            client.start()
        client.stop()
    assert set(threading.enumerate()) <= before


def test_a_port_that_is_taken_is_raised_by_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        client = TestClient(echo_app(), port=taken.getsockname()[1])
        with pytest.raises(RuntimeError, match=r"^bind "):
            client.start()


def test_options_of_the_server_are_passed_on() -> None:
    with TestClient(echo_app(), max_body=4, workers=1) as client:
        assert client.post("/echo", content=b"1234").status_code == 200
        assert client.post("/echo", content=b"12345").status_code == 413
        assert client.app.workers == 1
    with pytest.raises(ValueError, match="backlog"):
        TestClient(echo_app(), backlog=0).start()


def test_a_server_on_a_unix_socket_is_reached(tmp_path: Path) -> None:
    with TestClient(echo_app(), uds=tmp_path / "oxb.sock") as client:
        assert client.get("/echo").status_code == 200


def test_two_clients_serve_two_apps_at_once() -> None:
    first, second = App(), App()

    @first.get("/")
    async def one() -> str:
        return "one"

    @second.get("/")
    async def two() -> str:
        return "two"

    with TestClient(first) as a, TestClient(second) as b:
        assert (a.get("/").text, b.get("/").text) == ("one", "two")
        assert a.port != b.port


def test_stop_drains_the_request_in_flight() -> None:
    app = App()
    entered = threading.Event()

    @app.get("/slow")
    async def slow() -> str:
        entered.set()
        await asyncio.sleep(0.3)
        return "done"

    client = TestClient(app).start()
    answers: list[str] = []
    url = client.base_url + "/slow"

    def ask() -> None:
        import httpx

        answers.append(httpx.get(url, timeout=30).text)

    asking = threading.Thread(target=ask)
    asking.start()
    assert entered.wait(30)
    client.stop()
    asking.join(30)
    assert answers == ["done"]


def test_redirects_are_not_followed() -> None:
    app = App()

    @app.get("/")
    async def moved() -> object:
        from oxbrook import Response

        return Response(b"", 307, headers={"Location": "/elsewhere"})

    with TestClient(app) as client:
        assert client.get("/").status_code == 307


def test_a_socket_is_refused_with_the_answer_of_the_server_until_sockets_exist() -> None:
    websockets = pytest.importorskip("websockets")

    async def connect(client: TestClient) -> None:
        async with client.websocket("/nothing"):
            pass

    with TestClient(echo_app()) as client, pytest.raises(websockets.InvalidStatus, match="404"):
        asyncio.run(connect(client))


def test_free_port_gives_a_port_that_can_be_bound() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        assert 0 < port < 65536
