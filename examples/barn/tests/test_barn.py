"""Barn as its users meet it: through a real server, on a database of each test's own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import httpx
import pytest

pytest.importorskip("aiosqlite")

from oxbrook.testing import TestClient

HERE = Path(__file__).parent.parent
MODULES = ["main", "settings", "database", "models", "accounts", "items", "pictures", "reports"]
ANN = {"name": "ann", "password": "long enough"}
BOB = {"name": "bob", "password": "just as long"}
YOKE = {"name": "yoke", "kind": "tack", "count": 2, "price": "80.50"}


@pytest.fixture
def barn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.setenv("BARN_DATABASE", str(tmp_path / "barn.sqlite3"))
    monkeypatch.setenv("BARN_PICTURES", str(tmp_path / "pictures"))
    monkeypatch.syspath_prepend(str(HERE))
    yield importlib.import_module("main")
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def client(barn: ModuleType) -> Iterator[TestClient]:
    with TestClient(barn.app, workers=1) as client:
        yield client


@contextmanager
def signed_in(client: TestClient, who: dict[str, str]) -> Iterator[httpx.Client]:
    """A client of its own, with its own cookies."""
    with httpx.Client(base_url=client.base_url, timeout=30) as own:
        assert own.post("/api/users", json=who).status_code == 201
        assert own.post("/api/session", json=who).status_code == 200
        yield own


def file_of(text: str | bytes) -> dict[str, tuple[str, str | bytes, str]]:
    return {"file": ("items.csv", text, "text/csv")}


def test_the_front_page_is_served_with_what_it_needs(client: TestClient) -> None:
    page = client.get("/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for name in ("barn.js", "barn.css"):
        assert name in page.text
        assert client.get(f"/{name}").status_code == 200
    again = client.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert again.status_code == 304


def test_one_signs_up_in_and_out(client: TestClient) -> None:
    assert client.get("/api/me").status_code == 401
    with signed_in(client, ANN) as ann:
        assert ann.get("/api/me").json()["name"] == "ann"
        assert ann.post("/api/users", json=ANN).status_code == 409
        assert ann.delete("/api/session").status_code == 204
        assert ann.get("/api/me").status_code == 401
        for wrong in ({**ANN, "password": "not that one"}, BOB):
            assert ann.post("/api/session", json=wrong).status_code == 401
    assert client.post("/api/users", json={"name": "A", "password": "short"}).status_code == 422


def test_a_forged_session_is_nobody(client: TestClient) -> None:
    with signed_in(client, ANN) as ann:
        payload, _, signature = ann.cookies["barn"].partition(".")
        for forged in (payload, f"{payload}.", f"{payload}.{signature[::-1]}", f"{payload}x.{signature}"):
            assert client.get("/api/me", headers={"Cookie": f"barn={forged}"}).status_code == 401


def test_only_its_owner_changes_an_item(client: TestClient) -> None:
    with signed_in(client, ANN) as ann, signed_in(client, BOB) as bob:
        assert client.post("/api/items", json=YOKE).status_code == 401
        made = ann.post("/api/items", json=YOKE)
        assert made.status_code == 201
        where = made.headers["location"]
        assert client.get(where).json() == {**YOKE, "id": made.json()["id"], "owner": "ann"}
        assert ann.post("/api/items", json=YOKE).status_code == 409
        assert bob.put(where, json=YOKE).status_code == 403
        assert bob.delete(where).status_code == 403
        assert ann.put(where, json={**YOKE, "count": 3}).json()["count"] == 3
        assert client.get(where).json()["count"] == 3
        assert ann.delete(where).status_code == 204
        assert ann.delete(where).status_code == 404
        assert client.get(where).status_code == 404


def test_items_are_listed_by_page_kind_and_name(client: TestClient) -> None:
    with signed_in(client, ANN) as ann:
        for number in range(5):
            ann.post("/api/items", json={**YOKE, "name": f"yoke {number}"})
        ann.post("/api/items", json={"name": "hay", "kind": "feed"})

    def names(**query: object) -> tuple[list[str], int]:
        listed = client.get("/api/items", params=query).json()
        return [item["name"] for item in listed["items"]], listed["total"]

    assert names(kind="feed") == (["hay"], 1)
    assert names(search="OKE 3") == (["yoke 3"], 1)
    assert names(kind="tack", limit=2, offset=3) == (["yoke 3", "yoke 4"], 5)
    for wrong in ({"kind": "car"}, {"limit": 0}, {"offset": -1}):
        assert client.get("/api/items", params=wrong).status_code == 422


def test_a_file_is_imported_whole_or_not_at_all(client: TestClient) -> None:
    with signed_in(client, ANN) as ann:
        good = "name,kind,count,price\nfork,tool,3,12.00\nhay,feed,40,2.5\n"
        assert ann.post("/api/items/import", files=file_of(good)).json() == {"added": 2, "replaced": 0}
        answer = ann.post("/api/items/import", files=file_of(good), data={"replace": "true"})
        assert answer.json() == {"added": 2, "replaced": 2}
        assert client.get("/api/items/export").text.split() == good.split()
        bad: dict[int, list[str | bytes]] = {
            400: ["", "a,b\n1,2\n", b"name,kind,count,price\n\xff,tool,1,1\n"],
            409: [good],
            422: ["name,kind,count,price\nx,car,-1,1.234\n", "name,kind,count,price\nx\n"],
        }
        for status, texts in bad.items():
            for text in texts:
                assert ann.post("/api/items/import", files=file_of(text)).status_code == status, text
        errors = ann.post("/api/items/import", files=file_of(bad[422][0])).json()["errors"]
        assert [error["loc"] for error in errors] == [
            ["file", 2, name] for name in ("kind", "count", "price")
        ]
        assert ann.post("/api/items/import", files=file_of("x" * 5_000_000)).status_code == 413
        assert ann.post("/api/items/import", content=good).status_code == 415
        assert client.get("/api/items").json()["total"] == 2, "nothing of the bad ones is there"


def test_a_picture_is_kept_as_it_arrives_and_sent_whole_or_in_part(
    client: TestClient, tmp_path: Path
) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + bytes(3_000_000)
    png = {"Content-Type": "image/png"}
    with signed_in(client, ANN) as ann, signed_in(client, BOB) as bob:
        place = f"{ann.post('/api/items', json=YOKE).headers['location']}/picture"
        assert client.put(place, content=picture, headers=png).status_code == 401
        assert bob.put(place, content=picture, headers=png).status_code == 403
        assert ann.put(place, content=picture).status_code == 415
        assert ann.put(place, content=b"GIF89a", headers=png).status_code == 415
        assert ann.put(place, content=bytes(5_000_001), headers=png).status_code == 413
        assert client.get(place).status_code == 404
        assert ann.put(place, content=picture, headers=png).status_code == 204
    whole = client.get(place)
    assert (whole.content, whole.headers["content-type"]) == (picture, "image/png")
    part = client.get(place, headers={"Range": "bytes=0-7"})
    assert (part.status_code, part.content) == (206, picture[:8])
    assert client.get(place, headers={"If-None-Match": whole.headers["etag"]}).status_code == 304
    assert len(list((tmp_path / "pictures").iterdir())) == 1, "nothing is left of those that were refused"


def test_the_picture_of_an_item_goes_with_it(barn: ModuleType, tmp_path: Path) -> None:
    with TestClient(barn.app, workers=1) as client, signed_in(client, ANN) as ann:
        item = ann.post("/api/items", json=YOKE).headers["location"]
        png = {"Content-Type": "image/png"}
        assert ann.put(f"{item}/picture", content=b"\x89PNG\r\n\x1a\n", headers=png).status_code == 204
        assert ann.delete(item).status_code == 204
        assert ann.post("/api/items", json=YOKE).headers["location"] != item
        assert client.get(f"{item}/picture").status_code == 404
    assert list((tmp_path / "pictures").iterdir()) == []


def test_the_report_counts_what_is_there(client: TestClient) -> None:
    with signed_in(client, ANN) as ann:
        ann.post("/api/items", json=YOKE)
    totals = {total["kind"]: total for total in client.get("/api/reports/worth").json()}
    assert totals["tack"] == {"kind": "tack", "items": 1, "worth": "161.00"}
    assert totals["feed"]["items"] == 0


def test_what_is_done_after_the_response_is_done_when_the_server_has_stopped(barn: ModuleType) -> None:
    import sqlite3

    from settings import settings

    with TestClient(barn.app, workers=1) as client, signed_in(client, ANN):
        pass
    with sqlite3.connect(settings.database) as connection:
        assert connection.execute("SELECT what FROM events").fetchall() == [("ann signed up",)]
    connection.close()


def test_migrations_run_once(barn: ModuleType) -> None:
    for _ in range(2):
        with TestClient(barn.app, workers=1) as client:
            assert client.get("/api/items").status_code == 200


def test_every_answer_of_a_handler_has_a_number(client: TestClient) -> None:
    assert client.get("/api/me").headers["x-request-id"]
    assert client.get("/api/items", headers={"X-Request-Id": "mine"}).headers["x-request-id"] == "mine"


def test_the_barn_says_whether_it_is_ready(client: TestClient) -> None:
    assert client.get("/livez").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready", "checks": {"database": "ok"}}
