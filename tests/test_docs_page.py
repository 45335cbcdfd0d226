"""The documentation page (api.md 15): what it is made of, and that a browser shows the app in it."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from pydantic import BaseModel

from oxbrook import App
from oxbrook._docs_page import VERSION, takes_gzip
from oxbrook.testing import TestClient

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PLACES = [
    ("/docs", "/openapi.json"),
    ("/", "/openapi.json"),
    ("/help/", "/api/v1/document.json"),
    ("/api/help", "/openapi.json"),
]


class Ox(BaseModel):
    name: str
    weight: float = 800.0


def shop(**options: Any) -> App:
    app = App("Oxen & <Yokes>", **options)

    @app.post("/oxen/{herd}", status=201, tags=["herds"])
    async def add_ox(herd: int, ox: Ox, *, loud: bool = False) -> Ox:
        """Add an ox to a herd."""
        return ox

    return app


def links(text: str) -> list[str]:
    return re.findall(r'(?:href|src|data-url)="([^"]*)"', text)


@pytest.mark.parametrize(("docs_url", "openapi_url"), PLACES)
def test_the_page_and_all_it_asks_for_come_from_the_app(docs_url: str, openapi_url: str) -> None:
    with TestClient(shop(docs_url=docs_url, openapi_url=openapi_url)) as client:
        page = client.get(docs_url)
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "<title>Oxen &amp; &lt;Yokes&gt;</title>" in page.text
        policy = page.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "http" not in policy
        assert "http" not in page.text, "no other host is named"
        found = [link for link in links(page.text) if link != "data:,"]
        assert len(found) == 4
        assert not any(link.startswith("/") for link in found), "a proxy may add a prefix"
        kinds = {}
        for link in found:
            answer = client.get(urljoin(f"{client.base_url}{docs_url}", link))
            assert answer.status_code == 200, link
            kinds[re.sub(r".*/|\?.*", "", link)] = answer
        document = kinds.pop(openapi_url.rpartition("/")[2])
        assert document.json()["info"]["title"] == "Oxen & <Yokes>"
        assert {name: answer.headers["content-type"] for name, answer in kinds.items()} == {
            "swagger-ui.css": "text/css; charset=utf-8",
            "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
            "start.js": "text/javascript; charset=utf-8",
        }
        assert f'"{VERSION}"' in kinds["swagger-ui-bundle.js"].text, "the version that its address names"
        for name, answer in kinds.items():
            assert answer.headers["content-encoding"] == "gzip", name
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert answer.headers["vary"] == "Accept-Encoding"
            plain = client.get(str(answer.url), headers={"Accept-Encoding": "identity"})
            assert "content-encoding" not in plain.headers
            assert plain.content == answer.content
        assert client.head(docs_url).status_code == 200


def test_a_page_without_a_document_and_one_that_is_turned_off() -> None:
    for options in ({"docs_url": None}, {"openapi_url": None}):
        with TestClient(shop(**options)) as client:
            assert client.get("/docs").status_code == 404
            assert client.get("/docs/start.js").status_code == 404


def test_a_place_with_placeholders_is_refused() -> None:
    with pytest.raises(ValueError, match="docs_url cannot hold placeholders"):
        App(docs_url="/{x}")


def test_a_route_of_the_app_at_the_place_of_the_page_is_the_apps() -> None:
    app = App()

    @app.get("/docs")
    async def own() -> str:
        return "my own"

    with TestClient(app) as client:
        assert client.get("/docs").text == "my own"


def test_what_the_page_is_made_of_is_in_no_list() -> None:
    app = shop()
    assert [route.path for route in app.routes] == ["/oxen/{herd}"]
    assert list(app.openapi()["paths"]) == ["/oxen/{herd}"]


def test_gzip_is_sent_to_whoever_takes_it() -> None:
    for accepted in ("gzip", "br, GZIP;q=0.5", "x-gzip", "deflate,gzip"):
        assert takes_gzip(accepted), accepted
    for accepted in ("", "br", "gzip;q=0", "gzip; q=0.000", "notgzip"):
        assert not takes_gzip(accepted), accepted


def test_the_licences_are_in_the_package() -> None:
    import oxbrook

    folder = Path(oxbrook.__file__).with_name("_docs_assets")
    assert "Apache License" in (folder / "LICENSE-swagger-ui").read_text()
    assert "SmartBear" in (folder / "NOTICE-swagger-ui").read_text()
    assert f"Swagger UI {VERSION}" in (folder / "README.md").read_text()
    script = gzip.decompress((folder / "swagger-ui-bundle.js.gz").read_bytes()).decode()
    assert "sourceMappingURL=" not in script[-200:]


@pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt-get install chromium")
def test_a_browser_shows_the_app_without_any_other_host(tmp_path: Path) -> None:
    assert CHROMIUM is not None
    with TestClient(shop()) as client:
        command = [
            CHROMIUM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            f"--user-data-dir={tmp_path / 'profile'}",
            # Whatever else a page might ask for is not there.
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
            "--enable-logging=stderr",
            "--virtual-time-budget=20000",
            "--dump-dom",
            f"{client.base_url}/docs#/herds/add_ox",
        ]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert "Oxen &amp; &lt;Yokes&gt;" in shown.stdout, shown.stderr
    for part in ("Add an ox to a herd.", "/oxen/", "Request body", "herds", "Try it out"):
        assert part in shown.stdout, part
    console = [line for line in shown.stderr.splitlines() if "CONSOLE" in line]
    assert not [line for line in console if "Deprecated: escaping deep link" not in line]
