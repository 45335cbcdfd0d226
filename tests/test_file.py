"""`File` replies through a real socket (api.md 5.2), and how files are sent to slow and leaving clients."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import httpx
import pytest

from oxbrook import App, File, Reply, Request
from oxbrook.testing import TestClient

from .support import eventually

MTIME = 1_700_000_000
LARGE = bytes(range(256)) * 4096

# Called with what a type checker would refuse.
make: Any = File


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    os.utime(path, (MTIME, MTIME))
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("files")
    write(place / "report.csv", b"a,b\n1,2\n")
    write(place / "large.bin", LARGE)
    write(place / "empty", b"")
    write(place / ".hidden", b"hidden")
    (place / "link").symlink_to(write(place / "target.txt", b"target"))
    return place


@pytest.fixture(scope="module")
def client(place: Path) -> Iterator[TestClient]:
    app = App()

    @app.post("/files/{name}")
    @app.get("/files/{name}")
    async def plain(name: str) -> File:
        return File(place / name)

    @app.get("/blocking/{name}", blocking=True)
    def blocking(name: str) -> File:
        return File(str(place / name))

    @app.get("/named")
    async def named() -> File:
        return File(place / "report.csv", filename='na\u00efve "r".csv', headers={"X-Own": "1"})

    @app.get("/typed")
    async def typed() -> File:
        return File(place / "report.csv", content_type="text/x-own", headers={"ETag": '"mine"'})

    @app.get("/wrapped/{status}")
    async def wrapped(status: int) -> Reply:
        return Reply(File(place / "report.csv", headers={"X-A": "1"}), status, {"X-A": "2", "X-B": "3"})

    @app.get("/cookie")
    async def cookie() -> File:
        return File(place / "report.csv").set_cookie("a", "b")

    @app.get("/directory")
    async def directory() -> File:
        return File(place)

    with TestClient(app, max_concurrency=4) as client:
        yield client


@pytest.mark.parametrize("path", ["/files", "/blocking"])
def test_a_file_comes_with_its_type_length_and_validators(client: TestClient, path: str) -> None:
    answer = client.get(f"{path}/report.csv")
    assert (answer.status_code, answer.content) == (200, b"a,b\n1,2\n")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-length"] == "8"
    assert answer.headers["etag"] == f'W/"8-{MTIME * 10**9:x}"'
    assert answer.headers["last-modified"] == formatdate(MTIME, usegmt=True)
    assert answer.headers["accept-ranges"] == "bytes"
    head = client.head(f"{path}/report.csv")
    assert (head.status_code, head.headers["content-length"], head.content) == (200, "8", b"")


@pytest.mark.parametrize(("name", "content"), [(".hidden", b"hidden"), ("link", b"target"), ("empty", b"")])
def test_whatever_it_names_is_sent(client: TestClient, name: str, content: bytes) -> None:
    answer = client.get(f"/files/{name}")
    assert (answer.status_code, answer.content) == (200, content)


def test_a_large_file_is_whole_and_more_than_one_goes_over_a_connection(client: TestClient) -> None:
    for path in ("/files", "/blocking") * 4:
        assert client.get(f"{path}/large.bin").content == LARGE


def test_conditions_and_ranges_are_heeded_for_get_and_head_alone(client: TestClient) -> None:
    etag = client.get("/files/report.csv").headers["etag"]
    for method, expected in (("GET", 304), ("HEAD", 304), ("POST", 200)):
        answer = client.request(method, "/files/report.csv", headers={"If-None-Match": etag})
        assert answer.status_code == expected
    for method, expected in (("GET", 206), ("HEAD", 206), ("POST", 200)):
        answer = client.request(method, "/files/report.csv", headers={"Range": "bytes=0-2"})
        assert answer.status_code == expected
    assert client.get("/files/report.csv", headers={"Range": "bytes=0-2"}).content == b"a,b"
    missed = client.get("/files/report.csv", headers={"Range": "bytes=8-"})
    assert (missed.status_code, missed.headers["content-range"]) == (416, "bytes */8")
    changed = client.get("/files/report.csv", headers={"If-Modified-Since": formatdate(MTIME, usegmt=True)})
    assert changed.status_code == 304


def test_a_name_to_save_it_under(client: TestClient) -> None:
    answer = client.get("/named")
    expected = 'attachment; filename="na_ve \\"r\\".csv"; filename*=UTF-8\'\'na%C3%AFve%20%22r%22.csv'
    assert answer.headers["content-disposition"] == expected
    assert answer.headers["x-own"] == "1"
    assert File("x", filename="a.csv").headers == {"Content-Disposition": 'attachment; filename="a.csv"'}
    unchanged = client.get("/named", headers={"If-None-Match": "*"})
    assert unchanged.status_code == 304
    assert "content-disposition" not in unchanged.headers


def test_what_a_handler_says_goes_before_what_the_file_does(client: TestClient) -> None:
    answer = client.get("/typed")
    assert answer.headers["content-type"] == "text/x-own"
    assert answer.headers.get_list("etag") == ['"mine"']
    assert client.get("/typed", headers={"If-None-Match": '"mine"'}).status_code == 304


def test_a_reply_around_a_file_changes_a_200_alone_and_adds_headers(client: TestClient) -> None:
    answer = client.get("/wrapped/203")
    assert (answer.status_code, answer.headers["x-a"], answer.headers["x-b"]) == (203, "2", "3")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert client.get("/wrapped/203", headers={"Range": "bytes=0-0"}).status_code == 206
    assert client.get("/wrapped/203", headers={"If-None-Match": "*"}).status_code == 304
    assert client.get("/wrapped/203", headers={"Range": "bytes=9-"}).status_code == 416


def test_cookies_go_with_a_file(client: TestClient) -> None:
    assert client.get("/cookie").headers["set-cookie"].startswith("a=b; Path=/")


@pytest.mark.parametrize("path", ["/files/nothing", "/directory", "/blocking/nothing"])
def test_what_is_not_there_is_404_and_one_warning(
    client: TestClient, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    with caplog.at_level(logging.WARNING, "oxbrook"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.json() == {"type": "about:blank", "title": "Not Found", "status": 404}
        eventually(lambda: caplog.records, "a warning")
        assert client.get("/files/report.csv").status_code == 200
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("oxbrook", "WARNING")


def test_a_file_gives_its_slot_back(client: TestClient) -> None:
    """Four slots: a leak shows after four requests."""
    for _ in range(3):
        for path in ("/files/report.csv", "/files/large.bin", "/files/nothing", "/blocking/large.bin"):
            assert client.get(path).status_code in (200, 404)
            assert client.head(path).status_code in (200, 404)


def leave_early(address: tuple[str, int], path: str) -> None:
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        connection.recv(1000)


def test_a_client_that_leaves_frees_the_slot_of_its_file(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(2**31)
    app = App()

    @app.get("/huge", cancel_on_disconnect=False)
    async def get() -> File:
        return File(huge)

    @app.get("/ok")
    async def ok() -> str:
        return "ok"

    with TestClient(app, workers=1, max_concurrency=2) as client:
        address = (client.host, client.port)
        for _ in range(6):
            leave_early(address, "/huge")
        eventually(lambda: client.get("/ok").status_code == 200, "a free slot")
        eventually(lambda: client.get("/ok").status_code == 200, "a free slot")


def test_r19_a_slow_reader_of_a_large_file_holds_little_memory(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(2**31)
    app = App()
    app.static("/s", tmp_path)

    @app.get("/huge")
    async def get() -> File:
        return File(huge)

    with TestClient(app, workers=1) as client:
        address = (client.host, client.port)
        client.get("/s/nothing")
        before = resident()
        connections = []
        for path in ("/huge", "/s/huge") * 4:
            connection = socket.create_connection(address, timeout=10)
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            for _ in range(100):
                assert connection.recv(65536)
            connections.append(connection)
        grown = resident() - before
        for connection in connections:
            connection.close()
    assert grown < 16 * 2**20, f"{grown} bytes for 8 readers"


def resident() -> int:
    """Bytes of this process in memory."""
    import resource

    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except FileNotFoundError:
        pytest.skip("no /proc here")
    return pages * resource.getpagesize()


@pytest.mark.parametrize("path", ["/file", "/s/shrinking.bin"])
def test_a_file_that_gets_shorter_breaks_the_answer_off(
    tmp_path: Path, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    shrinking = tmp_path / "shrinking.bin"
    with shrinking.open("wb") as file:
        file.truncate(2**28)
    app = App()
    app.static("/s", tmp_path)

    @app.get("/file")
    async def get() -> File:
        return File(shrinking)

    with TestClient(app) as client, caplog.at_level(logging.ERROR, "oxbrook"):
        with httpx.stream("GET", f"{client.base_url}{path}") as answer:
            pieces = answer.iter_raw(65536)
            got = len(next(pieces))
            os.truncate(shrinking, 1000)
            with pytest.raises(httpx.RemoteProtocolError):
                got += sum(len(piece) for piece in pieces)
        assert got < 2**28
        assert client.get(path).headers["content-length"] == "1000"
        if path == "/file":
            eventually(lambda: "broke off" in caplog.text, "a line in the log")


def test_a_client_that_takes_nothing_is_timed_out(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(2**30)
    app = App()
    app.static("/s", tmp_path)
    with (
        TestClient(app, write_timeout=0.5) as client,
        socket.create_connection((client.host, client.port), timeout=20) as connection,
    ):
        connection.sendall(b"GET /s/huge HTTP/1.1\r\nHost: a\r\n\r\n")
        assert connection.recv(1)
        # Longer than the timeout and the sweep that looks for it, however slow this machine is.
        time.sleep(3.0)
        got = 1
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(2**20):
                got += len(piece)
        assert got < 2**30


def test_work_after_the_response_runs_after_the_file(place: Path) -> None:
    app = App()
    done: list[str] = []

    @app.get("/file")
    async def get(request: Request) -> File:
        request.after_response(done.append, "after")
        return File(place / "large.bin")

    with TestClient(app) as client:
        assert client.get("/file").content == LARGE
        eventually(lambda: done == ["after"], "the work")


def test_middleware_adds_to_a_file(place: Path) -> None:
    app = App()

    @app.middleware
    async def add(request: Request, call_next: Any) -> Reply:
        reply: Reply = await call_next(request)
        assert isinstance(reply.value, File)
        reply.headers = {"X-Seen": "1"}
        await asyncio.sleep(0)
        return reply

    @app.get("/file")
    async def get() -> File:
        return File(place / "report.csv")

    with TestClient(app) as client:
        answer = client.get("/file")
        assert (answer.headers["x-seen"], answer.content) == ("1", b"a,b\n1,2\n")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"path": 1}, TypeError),
        ({"path": b"x"}, TypeError),
        ({"path": "a\0b"}, ValueError),
        ({"path": "a", "filename": "a\r\nb"}, ValueError),
        ({"path": "a", "filename": "../a"}, ValueError),
        ({"path": "a", "filename": ""}, ValueError),
    ],
)
def test_a_bad_file_raises_where_it_is_made(arguments: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        make(**arguments)
