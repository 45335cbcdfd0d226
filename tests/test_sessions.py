"""Sessions in a signed cookie (api.md 10.3)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import pytest

from oxbrook import App, Depends, Session, Sessions
from oxbrook.testing import TestClient

SECRET = "a secret of the tests"


def signed(payload: str, secret: str = SECRET) -> str:
    """A cookie as the contract describes it, made here by hand."""
    digest = hmac.new(secret.encode(), payload.encode(), hashlib.sha256).digest()
    return f"{payload}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def payload_of(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def test_a_cookie_has_the_form_of_the_contract() -> None:
    sessions = Sessions(SECRET)
    before = int(time.time())
    cookie = sessions.encode({"user": "zoë", "n": [1, None]})
    payload = cookie.partition(".")[0]
    assert cookie == signed(payload)
    held = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert held["d"] == {"user": "zoë", "n": [1, None]}
    assert before <= held["t"] <= time.time()
    assert sessions.decode(cookie) == {"user": "zoë", "n": [1, None]}
    header = sessions.cookie_header({"a": 1})
    assert header.startswith("oxbrook_session=")
    assert header.endswith("; Path=/; Max-Age=1209600; HttpOnly; SameSite=Lax; Secure")


NOW = int(time.time())
BAD = {
    "empty": "",
    "text": "nonsense",
    "no signature": payload_of({"d": {"a": 1}, "t": NOW}),
    "other secret": signed(payload_of({"d": {"a": 1}, "t": NOW}), "another"),
    "changed": "x" + signed(payload_of({"d": {"a": 1}, "t": NOW})),
    "no base64": signed("%%%"),
    "no json": signed(base64.urlsafe_b64encode(b"{").decode().rstrip("=")),
    "no dict": signed(payload_of([1])),
    "no values": signed(payload_of({"t": NOW})),
    "no time": signed(payload_of({"d": {"a": 1}})),
    "values no dict": signed(payload_of({"d": [1], "t": NOW})),
    "time no number": signed(payload_of({"d": {"a": 1}, "t": "now"})),
    "old": signed(payload_of({"d": {"a": 1}, "t": NOW - 1_209_700})),
    "not ascii": "é.é",
}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD.keys())
def test_what_is_not_a_fresh_cookie_of_ours_is_an_empty_session(value: str) -> None:
    assert Sessions(SECRET).decode(value) == {}


def test_age_0_is_never_old() -> None:
    old = signed(payload_of({"d": {"a": 1}, "t": 1}))
    assert Sessions(SECRET, max_age=0).decode(old) == {"a": 1}


def test_bad_declarations_are_refused() -> None:
    for secret in ("", b""):
        with pytest.raises(ValueError, match="secret"):
            Sessions(secret)
    with pytest.raises(ValueError, match="cookie name"):
        Sessions(SECRET, cookie="a b")
    with pytest.raises(ValueError, match="same_site"):
        Sessions(SECRET, same_site="None", secure=False)


def changes() -> dict[str, Any]:
    def ior(session: Session) -> None:
        session |= {"b": 2}

    return {
        "set": lambda s: s.__setitem__("b", 1),
        "delete": lambda s: s.__delitem__("a"),
        "clear": lambda s: s.clear(),
        "pop": lambda s: s.pop("a"),
        "popitem": lambda s: s.popitem(),
        "setdefault": lambda s: s.setdefault("b", 2),
        "update": lambda s: s.update({"b": 2}, c=3),
        "ior": ior,
    }


def is_modified(session: Session) -> bool:
    return session.modified


def test_every_change_of_a_session_is_seen_and_reading_is_none() -> None:
    for name, change in changes().items():
        session = Session({"a": 1})
        assert not is_modified(session)
        change(session)
        assert is_modified(session), name
        assert session != {"a": 1}, name
    session = Session({"a": [1]})
    assert session.get("a") == session["a"] == session.setdefault("a", 2)
    assert session.pop("b", None) is None
    session["a"].append(2)
    with pytest.raises(KeyError):
        session.pop("b")
    assert not is_modified(session)


def test_a_session_is_kept_by_its_client_and_sent_only_when_it_changed() -> None:
    app = App()
    sessions = Sessions(SECRET, secure=False)
    app.middleware(sessions.middleware)

    @app.get("/count")
    async def count(
        session: Session = Depends(sessions.load), again: Session = Depends(sessions.load)
    ) -> int:
        assert session is again
        session["n"] = session.get("n", 0) + 1
        number: int = session["n"]
        return number

    @app.get("/look")
    async def look(session: Session = Depends(sessions.load)) -> dict[str, Any]:
        return session

    @app.get("/plain")
    async def plain() -> str:
        return "plain"

    with TestClient(app) as client:
        assert [client.get("/count").json() for _ in range(3)] == [1, 2, 3]
        answer = client.get("/look")
        assert answer.json() == {"n": 3}
        assert "set-cookie" not in answer.headers
        assert "set-cookie" not in client.get("/plain").headers
        client.http.cookies.clear()
        forged = client.get("/look", headers={"Cookie": "oxbrook_session=" + BAD["other secret"]})
        assert forged.json() == {}
