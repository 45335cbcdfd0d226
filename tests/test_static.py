"""Static mounts through a real socket (api.md 10.1): every status, header and refusal it names."""

from __future__ import annotations

import gzip
import os
import socket
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import httpx
import pytest

from oxbrook import CORS, App, Router
from oxbrook.testing import TestClient

LARGE = bytes(range(256)) * 4096  # 1 MiB, over what is read in one go
MTIME = 1_700_000_000


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, ns=(MTIME * 10**9 + 5, MTIME * 10**9 + 5))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("static")
    root = base / "public"
    for name, content in {
        "index.html": b"<h1>front</h1>",
        "app.js": b"let x = 1;" * 50,
        "style.css": b"a { }",
        "data.json": b"{}",
        "empty.txt": b"",
        "blob": b"0123456789",
        "large.bin": LARGE,
        "docs/index.html": b"docs",
        "bare/file.txt": b"bare",
        "caf\u00e9 & co.txt": b"coffee",
        ".hidden": b"secret",
        ".git/config": b"secret",
        "con.css": b"device",
        "trail.": b"dot",
        "a:b": b"colon",
        "back\\slash": b"backslash",
        "report.txt": b"plain text " * 100,
        "report.txt.gz": gzip.compress(b"plain text " * 100),
        "report.txt.br": b"stands for brotli",
        "only.svg.gz": b"twin without a file",
    }.items():
        write(root / name, content)
    write(base / "outside.txt", b"outside")
    write(base / "public-secret" / "x.txt", b"a sibling whose name begins alike")
    (root / "in-link.txt").symlink_to("docs/index.html")
    (root / "in-link-absolute.txt").symlink_to(root / "docs" / "index.html")
    (root / "in-dir").symlink_to("docs")
    (root / "out-link.txt").symlink_to("../outside.txt")
    (root / "out-absolute.txt").symlink_to(base / "outside.txt")
    (root / "out-dir").symlink_to(base / "public-secret")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    return root


@pytest.fixture(scope="module")
def base(root: Path) -> Iterator[str]:
    app = App()
    app.static("/assets", root, cache_control="max-age=60")
    app.static("/app", root, fallback="index.html")
    app.static("/dots", root, dotfiles=True)

    @app.get("/assets/live/{name}")
    async def live(name: str) -> str:
        return f"live {name}"

    with TestClient(app) as client:
        yield str(client.base_url)


def raw_target(
    base: str, target: str, method: str = "GET", headers: str = ""
) -> tuple[int, dict[str, str], bytes]:
    """Ask for a target exactly as it is written; clients tidy dot segments up."""
    host, _, port = base.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        asked = f"{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n"
        connection.sendall(asked.encode("latin-1"))
        got = b""
        while piece := connection.recv(65536):
            got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines[1:])
    return int(lines[0].split()[1]), fields, body


def test_a_file_comes_with_its_type_length_and_validators(base: str) -> None:
    answer = httpx.get(f"{base}/assets/style.css")
    assert (answer.status_code, answer.content) == (200, b"a { }")
    fields = answer.headers
    assert fields["content-type"] == "text/css; charset=utf-8"
    assert fields["content-length"] == "5"
    assert fields["etag"] == f'W/"5-{MTIME * 10**9 + 5:x}"'
    assert fields["last-modified"] == formatdate(MTIME, usegmt=True)
    assert fields["accept-ranges"] == "bytes"
    assert fields["cache-control"] == "max-age=60"
    assert "cache-control" not in httpx.get(f"{base}/app/style.css").headers


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("index.html", "text/html; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("data.json", "application/json; charset=utf-8"),
        ("empty.txt", "text/plain; charset=utf-8"),
        ("blob", "application/octet-stream"),
        ("large.bin", "application/octet-stream"),
    ],
)
def test_the_type_is_told_by_the_extension(base: str, name: str, kind: str) -> None:
    assert httpx.get(f"{base}/assets/{name}").headers["content-type"] == kind


def test_large_and_empty_files_are_whole(base: str) -> None:
    assert httpx.get(f"{base}/assets/large.bin").content == LARGE
    empty = httpx.get(f"{base}/assets/empty.txt")
    assert (empty.status_code, empty.headers["content-length"], empty.content) == (200, "0", b"")


@pytest.mark.parametrize("name", ["style.css", "large.bin", "empty.txt"])
def test_head_has_the_fields_of_get_and_no_body(base: str, name: str) -> None:
    got, head = httpx.get(f"{base}/assets/{name}"), httpx.head(f"{base}/assets/{name}")
    assert (head.status_code, head.content) == (200, b"")
    ignored = {"date"}
    assert {k: v for k, v in head.headers.items() if k not in ignored} == {
        k: v for k, v in got.headers.items() if k not in ignored
    }


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_refused(base: str, method: str) -> None:
    answer = httpx.request(method, f"{base}/assets/style.css")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


def test_a_name_is_decoded_once(base: str) -> None:
    assert httpx.get(f"{base}/assets/caf%C3%A9%20&%20co.txt").content == b"coffee"
    assert httpx.get(f"{base}/assets/caf%25C3%25A9%20&%20co.txt").status_code == 404


REFUSED = r"""
/assets/.. /assets/../outside.txt /assets/%2e%2e/outside.txt /assets/docs/../style.css /assets/./style.css
/assets/%2E/style.css /assets/docs%2f..%2fstyle.css /assets/docs%2findex.html /assets/..%5coutside.txt
/assets/back\slash /assets/back%5cslash /assets/style.css%00
/assets/%00 /assets/a:b /assets/a%3ab /assets/c:/x
/assets/trail. /assets/style.css%20 /assets/con.css /assets/NUL /assets/aux.txt /assets/com1 /assets/lpt9.x
/assets/conin$ /assets/%ff /assets/%c0%ae%c0%ae/outside.txt /assets/.hidden /assets/.git/config
/assets//style.css /assets/docs//index.html /assets/out-link.txt /assets/out-absolute.txt
/assets/out-dir/x.txt /assets/out-dir/nothing.txt /assets/../public-secret/x.txt /assets/loop /assets/pipe
/assets/nothing.txt /assets/style.css/ /assets/style.css/x /assets/bare/ /assets/bare /assets/only.svg
"""


@pytest.mark.parametrize("target", REFUSED.split())
def test_what_is_not_there_and_what_may_not_be_looked_for_are_the_same_404(base: str, target: str) -> None:
    status, fields, body = raw_target(base, target)
    assert status == 404
    assert body == b'{"type":"about:blank","title":"Not Found","status":404}'
    assert fields["content-type"] == "application/problem+json"


def test_dotfiles_are_served_where_that_is_asked_for(base: str) -> None:
    assert httpx.get(f"{base}/dots/.hidden").content == b"secret"
    assert httpx.get(f"{base}/dots/.git/config").content == b"secret"
    assert raw_target(base, "/dots/../outside.txt")[0] == 404


@pytest.mark.parametrize("name", ["in-link.txt", "in-link-absolute.txt", "in-dir/index.html", "in-dir/"])
def test_links_that_stay_inside_are_followed(base: str, name: str) -> None:
    for _ in range(2):
        assert httpx.get(f"{base}/assets/{name}").content == b"docs"


@pytest.mark.parametrize(
    ("target", "location"),
    [
        ("/assets", "/assets/"),
        ("/assets?a=1&b=%2F", "/assets/?a=1&b=%2F"),
        ("/assets/docs", "/assets/docs/"),
        ("/assets/docs?x", "/assets/docs/?x"),
        ("/assets/in-dir", "/assets/in-dir/"),
    ],
)
def test_a_directory_without_its_slash_is_redirected(base: str, target: str, location: str) -> None:
    status, fields, body = raw_target(base, target)
    assert (status, fields["location"], body) == (308, location, b"")


def test_a_directory_with_its_slash_is_its_index(base: str) -> None:
    assert httpx.get(f"{base}/assets/").content == b"<h1>front</h1>"
    answer = httpx.get(f"{base}/assets/docs/")
    assert (answer.content, answer.headers["content-type"]) == (b"docs", "text/html; charset=utf-8")


@pytest.mark.parametrize(
    ("path", "accept", "status"),
    [
        ("/app/users/7", "text/html,*/*", 200),
        ("/app/users/", "TEXT/HTML", 200),
        ("/app/users/7", "*/*", 404),
        ("/app/users/7", "application/json", 404),
        ("/app/users/7.js", "text/html", 404),
        ("/app/bare/", "text/html", 404),
        ("/app/.hidden/x", "text/html", 404),
        ("/app/out-link", "text/html", 200),
        ("/app/out-dir/x", "text/html", 404),
        ("/assets/users/7", "text/html", 404),
    ],
)
def test_the_fallback_is_for_pages_that_are_not_there(base: str, path: str, accept: str, status: int) -> None:
    answer = httpx.get(base + path, headers={"Accept": accept})
    assert answer.status_code == status
    if status == 200:
        assert answer.content == b"<h1>front</h1>"
        assert answer.headers["content-type"] == "text/html; charset=utf-8"


ETAG = f'W/"a-{MTIME * 10**9 + 5:x}"'
DATE = formatdate(MTIME, usegmt=True)
EARLIER = formatdate(MTIME - 1, usegmt=True)
CONDITIONS: list[tuple[dict[str, str], int]] = [
    ({"If-None-Match": ETAG}, 304),
    ({"If-None-Match": ETAG.removeprefix("W/")}, 304),
    ({"If-None-Match": f'"x", {ETAG}'}, 304),
    ({"If-None-Match": "*"}, 304),
    ({"If-None-Match": '"x"'}, 200),
    ({"If-Modified-Since": DATE}, 304),
    ({"If-Modified-Since": formatdate(MTIME + 60, usegmt=True)}, 304),
    ({"If-Modified-Since": EARLIER}, 200),
    ({"If-Modified-Since": "soon"}, 200),
    ({"If-None-Match": '"x"', "If-Modified-Since": DATE}, 200),
    ({"If-None-Match": ETAG, "If-Modified-Since": EARLIER}, 304),
    ({"If-None-Match": ETAG, "Range": "bytes=0-1"}, 304),
]


@pytest.mark.parametrize(("headers", "status"), CONDITIONS)
def test_conditions(base: str, headers: dict[str, str], status: int) -> None:
    for method in ("GET", "HEAD"):
        answer = httpx.request(method, f"{base}/assets/blob", headers=headers)
        assert answer.status_code == status
        assert answer.headers["etag"] == ETAG
        assert answer.headers["cache-control"] == "max-age=60"
        if status == 304:
            assert answer.content == b""
            assert not {"content-length", "content-type"} & set(answer.headers)


@pytest.mark.parametrize(
    ("ask", "part", "told"),
    [
        ("bytes=0-0", b"0", "bytes 0-0/10"),
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=-2", b"89", "bytes 8-9/10"),
        ("bytes=-99", b"0123456789", "bytes 0-9/10"),
        ("bytes=5-99", b"56789", "bytes 5-9/10"),
    ],
)
def test_one_range_is_a_part(base: str, ask: str, part: bytes, told: str) -> None:
    answer = httpx.get(f"{base}/assets/blob", headers={"Range": ask})
    assert (answer.status_code, answer.content) == (206, part)
    assert answer.headers["content-range"] == told
    assert answer.headers["content-length"] == str(len(part))
    head = httpx.head(f"{base}/assets/blob", headers={"Range": ask})
    assert (head.status_code, head.headers["content-range"], head.content) == (206, told, b"")


def test_a_part_of_a_large_file(base: str) -> None:
    answer = httpx.get(f"{base}/assets/large.bin", headers={"Range": "bytes=1000-900999"})
    assert (answer.status_code, answer.content == LARGE[1000:901000]) == (206, True)


@pytest.mark.parametrize(
    "ask", ["bytes=0-1,4-5", "bytes=0-1, 4-5", "items=0-1", "bytes=5-2", "bytes=x-", "bytes", "bytes=-"]
)
def test_several_ranges_and_what_is_none_get_the_whole(base: str, ask: str) -> None:
    answer = httpx.get(f"{base}/assets/blob", headers={"Range": ask})
    assert (answer.status_code, answer.content) == (200, b"0123456789")


@pytest.mark.parametrize("ask", ["bytes=10-", "bytes=99-100", "bytes=-0"])
def test_a_range_that_is_not_there(base: str, ask: str) -> None:
    answer = httpx.get(f"{base}/assets/blob", headers={"Range": ask})
    assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */10")
    assert answer.json()["status"] == 416


@pytest.mark.parametrize(
    ("validator", "status"),
    [(ETAG, 206), (DATE, 206), ('"x"', 200), (EARLIER, 200), (ETAG.removeprefix("W/"), 200)],
)
def test_if_range(base: str, validator: str, status: int) -> None:
    headers = {"Range": "bytes=0-0", "If-Range": validator}
    assert httpx.get(f"{base}/assets/blob", headers=headers).status_code == status


def test_a_compressed_twin_is_sent_to_those_who_take_it(base: str, root: Path) -> None:
    url = f"{base}/assets/report.txt"
    plain = (root / "report.txt").read_bytes()
    for accepts, coding in (
        ("identity", None),
        ("gzip", "gzip"),
        ("gzip, br", "br"),
        ("br;q=0.1, gzip", "gzip"),
    ):
        with httpx.stream("GET", url, headers={"Accept-Encoding": accepts}) as answer:
            sent = b"".join(answer.iter_raw())
        assert answer.status_code == 200
        assert answer.headers.get("content-encoding") == coding
        assert answer.headers["vary"] == "Accept-Encoding"
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["etag"].startswith(f'W/"{len(sent):x}-')
        if coding == "gzip":
            assert gzip.decompress(sent) == plain
        elif coding is None:
            assert sent == plain
    # A file without twins has nothing to vary by.
    assert "vary" not in httpx.get(f"{base}/assets/style.css").headers


def test_a_twin_has_ranges_and_conditions_of_its_own(base: str, root: Path) -> None:
    url, accepts = f"{base}/assets/report.txt", {"Accept-Encoding": "br"}
    with httpx.stream("GET", url, headers={**accepts, "Range": "bytes=0-5"}) as answer:
        assert b"".join(answer.iter_raw()) == b"stands"
    assert answer.headers["content-range"] == f"bytes 0-5/{len(b'stands for brotli')}"
    unchanged = httpx.get(url, headers={**accepts, "If-None-Match": answer.headers["etag"]})
    assert (unchanged.status_code, unchanged.headers["vary"]) == (304, "Accept-Encoding")
    assert httpx.get(url, headers={"If-None-Match": answer.headers["etag"]}).status_code == 200


def test_routes_go_before_the_mount(base: str) -> None:
    assert httpx.get(f"{base}/assets/live/x").text == "live x"


def test_a_mount_at_the_root_leaves_routes_alone(root: Path) -> None:
    app = App(docs_url=None)
    app.static("/", root, fallback="index.html")

    @app.get("/api/{name}")
    async def api(name: str) -> str:
        return name

    with TestClient(app) as client:
        assert client.get("/").content == b"<h1>front</h1>"
        assert client.get("/style.css").content == b"a { }"
        assert client.get("/api/x").text == "x"
        assert client.get("/openapi.json").status_code == 200
        assert client.get("/any/page", headers={"Accept": "text/html"}).content == b"<h1>front</h1>"
        assert raw_target(str(client.base_url), "//style.css")[0] == 404
        assert raw_target(str(client.base_url), "//evil.example/docs")[0] == 404
        assert raw_target(str(client.base_url), "/docs")[1]["location"] == "/docs/"
        assert client.post("/style.css").status_code == 405


def test_a_changed_file_and_a_directory_made_anew_are_seen(tmp_path: Path) -> None:
    directory = tmp_path / "dist"
    write(directory / "a.txt", b"one")
    app = App()
    app.static("/d", directory)
    with TestClient(app) as client:
        first = client.get("/d/a.txt")
        (directory / "a.txt").write_bytes(b"other")
        second = client.get("/d/a.txt", headers={"If-None-Match": first.headers["etag"]})
        assert (second.status_code, second.content) == (200, b"other")
        (tmp_path / "dist").rename(tmp_path / "old")
        assert client.get("/d/a.txt").status_code == 404
        write(directory / "a.txt", b"new")
        assert client.get("/d/a.txt").content == b"new"


def test_many_requests_on_one_connection(base: str) -> None:
    with httpx.Client(base_url=base) as client:
        for name, size in (("large.bin", len(LARGE)), ("style.css", 5), ("empty.txt", 0)) * 5:
            assert len(client.get(f"/assets/{name}").content) == size
            assert client.head(f"/assets/{name}").status_code == 200
        # A body nobody asked for ends the connection, and the client gets its answer.
        assert client.request("GET", "/assets/style.css", content=b"x" * 100_000).status_code == 200
        assert client.get("/assets/style.css").content == b"a { }"


def test_files_and_refusals_carry_the_fields_of_cors(root: Path) -> None:
    app = App(cors=CORS(["https://a.example"]))
    app.static("/s", root)
    with TestClient(app) as client:
        for name, status in (("style.css", 200), ("report.txt", 200), ("nothing", 404), ("large.bin", 200)):
            answer = client.get(f"/s/{name}", headers={"Origin": "https://a.example"})
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == "https://a.example"
            assert "Origin" in answer.headers["vary"]


# Called with what a type checker would refuse.
def declare(**changed: Any) -> None:
    given = {"prefix": "/s", **changed}
    app: Any = App()
    app.static(given.pop("prefix"), given.pop("directory"), **given)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"prefix": ""}, ValueError),
        ({"prefix": "s"}, ValueError),
        ({"prefix": "/s/"}, ValueError),
        ({"prefix": "//"}, ValueError),
        ({"prefix": "/{name}"}, ValueError),
        ({"directory": "/no/such/directory"}, ValueError),
        ({"index": "a/b.html"}, ValueError),
        ({"index": ""}, ValueError),
        ({"index": ".."}, ValueError),
        ({"fallback": "nothing.html"}, ValueError),
        ({"fallback": "docs"}, ValueError),
        ({"fallback": "../outside.txt"}, ValueError),
        ({"fallback": "out-link.txt"}, ValueError),
        ({"cache_control": "a\r\nb: c"}, ValueError),
        ({"dotfiles": 1}, TypeError),
        ({"prefix": 1}, TypeError),
        ({"directory": 1}, TypeError),
    ],
)
def test_a_bad_mount_raises_where_it_is_declared(
    root: Path, changed: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"test_static\.py:\d+\)"):
        declare(**{"directory": root, **changed})


def test_a_mount_and_a_route_of_one_shape_conflict(root: Path) -> None:
    app = App()

    @app.get("/s")
    async def page() -> None:
        return None

    with pytest.raises(ValueError, match=r"the mount at /s conflicts with GET /s, .*test_static\.py"):
        app.static("/s", root)
    app.static("/t", root)
    with pytest.raises(ValueError, match="the mount at /t conflicts with the mount at /t"):
        app.static("/t", root)
    with pytest.raises(ValueError, match=r"GET /t/\{\*rest\} conflicts with the mount at /t"):

        @app.get("/t/{*rest}")
        async def rest(rest: str) -> str:
            return rest

    router = Router("/t")

    @router.get("/{name}")
    async def named(name: str) -> str:
        return name

    with pytest.raises(ValueError, match="conflicts with the mount"):
        app.include(router)

    @app.post("/t")
    async def other_method() -> None:
        return None

    assert [mount.prefix for mount in app.mounts] == ["/t"]
