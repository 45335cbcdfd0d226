"""A client for tests that runs the real server on another thread (api.md 17).

    with TestClient(app) as client:
        assert client.get("/hello").text == "hello"

Invariant: what a test sees went through a real socket; nothing is short-cut.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from oxbrook._app import App
from oxbrook._options import MAX_MESSAGE, ServerKeywords

if TYPE_CHECKING:
    import httpx
    import websockets

    from oxbrook._server import ServerHandle

__all__ = ["TestClient", "free_port"]


class TestClient:
    """Serves `app` between `start` and `stop`, or in a `with` block, and sends requests to it.

    `port=None` takes a free one. `timeout` is the client's, in seconds. `options` are those of
    `App.build_server`. Redirects are not followed. Needs `httpx`, sockets need `websockets`.
    """

    __test__ = False  # pytest: this is no test, whatever its name says

    def __init__(
        self,
        app: App,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        timeout: float = 10.0,
        **options: Unpack[ServerKeywords],
    ) -> None:
        self.app = app
        self.host = host
        self.port = 0 if port is None else port
        self.timeout = timeout
        self._options = options
        self._server: ServerHandle | None = None
        self._thread: threading.Thread | None = None
        self._http: httpx.Client | None = None
        self._error: BaseException | None = None

    def start(self) -> Self:
        """Start the server and return once it accepts.

        Raises: what the server raised while it started.
        """
        import httpx

        if self._thread is not None:
            raise RuntimeError("the client is started already")
        options: ServerKeywords = {
            "workers": None,
            "max_concurrency": 1024,
            "max_body": 16_777_216,
            "request_timeout": 30.0,
            "shutdown_grace": 10.0,
            "max_connections": 2048,
            "max_message": MAX_MESSAGE,
            **self._options,
        }
        self._server = self.app.build_server(self.host, self.port, **options)
        self._error = None
        self._thread = threading.Thread(target=self._serve, args=(self._server,), name="oxbrook-test-server")
        self._thread.start()
        address = self._server.wait_started()
        if address is None:
            self.stop()
            raise RuntimeError("the server ended before it accepted")
        uds = self._options.get("uds")
        if uds is None and isinstance(address, tuple):
            self.port = address[1]
        transport = None if uds is None else httpx.HTTPTransport(uds=os.fspath(uds))
        self._http = httpx.Client(base_url=self.base_url, timeout=self.timeout, transport=transport)
        return self

    def _serve(self, server: ServerHandle) -> None:
        try:
            server.serve()
        except BaseException as error:
            # It belongs to the thread that called `start` or `stop`, and is raised there.
            self._error = error

    def stop(self) -> None:
        """Drain the server and wait for its end.

        Raises: what the server raised.
        """
        if self._http is not None:
            self._http.close()
            self._http = None
        if self._server is not None:
            self._server.shutdown()
        if self._thread is not None:
            self._thread.join()
        self._server = self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def http(self) -> httpx.Client:
        """The client that the request methods use.

        Raises: RuntimeError before `start`.
        """
        if self._http is None:
            raise RuntimeError("the client is not started: call start() or use it in a with block")
        return self._http

    @property
    def base_url(self) -> str:
        """`http://host:port`, an IPv6 host in brackets."""
        return f"http://{self._authority}"

    @property
    def ws_url(self) -> str:
        """As `base_url`, for sockets."""
        return f"ws://{self._authority}"

    @property
    def _authority(self) -> str:
        is_bare_ipv6 = ":" in self.host and not self.host.startswith("[")
        return f"[{self.host}]:{self.port}" if is_bare_ipv6 else f"{self.host}:{self.port}"

    # What goes into a request is httpx's to say: its keywords are passed on as they are.

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request and return the whole response."""
        return self.http.request(method, path, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        """Send a `GET` request."""
        return self.http.get(path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        """Send a `POST` request."""
        return self.http.post(path, **options)

    def put(self, path: str, **options: Any) -> httpx.Response:
        """Send a `PUT` request."""
        return self.http.put(path, **options)

    def patch(self, path: str, **options: Any) -> httpx.Response:
        """Send a `PATCH` request."""
        return self.http.patch(path, **options)

    def delete(self, path: str, **options: Any) -> httpx.Response:
        """Send a `DELETE` request."""
        return self.http.delete(path, **options)

    def head(self, path: str, **options: Any) -> httpx.Response:
        """Send a `HEAD` request."""
        return self.http.head(path, **options)

    def options(self, path: str, **options: Any) -> httpx.Response:
        """Send an `OPTIONS` request."""
        return self.http.options(path, **options)

    def stream(self, method: str, path: str, **options: Any) -> AbstractContextManager[httpx.Response]:
        """Send a request; in the `with` block its response's body is read piece by piece."""
        return self.http.stream(method, path, **options)

    def websocket(
        self, path: str, headers: dict[str, str] | None = None
    ) -> AbstractAsyncContextManager[websockets.ClientConnection]:
        """Open a socket for the `async with` block."""
        from websockets.asyncio.client import connect

        return connect(self.ws_url + path, additional_headers=headers)


def free_port() -> int:
    """Return a TCP port of the loopback address that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
