"""Sessions in a signed cookie (api.md 10.3).

The cookie is signed, not encrypted: its reader can see what is in it, and cannot change it.

Invariant: nothing of a cookie is believed before its signature was compared, in constant time.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from oxbrook._core import encode_json
from oxbrook._responses import cookie_header, headers_with_cookie

if TYPE_CHECKING:
    from oxbrook._core import Request
    from oxbrook._responses import Reply

# The place of a request's session among its `locals`.
LOCAL: Final = "oxbrook.session"


class Session(dict[str, Any]):
    """A dict that knows whether it was changed. Changes inside a value are not seen: set `modified` then."""

    __slots__ = ("modified",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        super().__init__(values or {})
        self.modified = False

    def __setitem__(self, name: str, value: Any) -> None:
        self.modified = True
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self.modified = True

    def __ior__(self, other: Any) -> Self:  # type: ignore[override,misc]
        self.update(other)
        return self

    def clear(self) -> None:
        """Remove everything."""
        self.modified = True
        super().clear()

    def pop(self, name: str, *default: Any) -> Any:
        """Remove one and return it, or the default."""
        if name in self:
            self.modified = True
        return super().pop(name, *default)

    def popitem(self) -> tuple[str, Any]:
        """Remove the newest one and return it."""
        item = super().popitem()
        self.modified = True
        return item

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return what is there, or set the default and return that."""
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *others: Any, **named: Any) -> None:
        """Set several at once."""
        for name, value in dict(*others, **named).items():
            self[name] = value


class Sessions:
    """Keeps a `Session` for each client in a signed cookie.

    Use it by `app.middleware(sessions.middleware)` and `session: Session = Depends(sessions.load)`. `max_age`
    is in seconds, 0 means never old.

    Raises: ValueError for an empty secret, or for what a cookie cannot be.
    """

    def __init__(
        self,
        secret: str | bytes,
        *,
        cookie: str = "oxbrook_session",
        max_age: int = 1_209_600,
        secure: bool = True,
        same_site: str | None = "Lax",
        path: str = "/",
    ) -> None:
        if not secret:
            raise ValueError("the secret of Sessions is empty: give it at least 32 random bytes")
        self.cookie = cookie
        self.max_age = max_age
        self.secure = secure
        self.same_site = same_site
        self.path = path
        self._secret = secret.encode() if isinstance(secret, str) else bytes(secret)
        self._header("x")  # a bad name, path or combination is told now

    def encode(self, values: Mapping[str, Any]) -> str:
        """Return the value of a cookie that holds these."""
        payload = unpadded(encode_json({"d": dict(values), "t": int(time.time())}))
        return f"{payload}.{self._signature(payload)}"

    def decode(self, value: str) -> dict[str, Any]:
        """Return what a cookie holds: nothing if it is malformed, not signed with this secret, or too old."""
        payload, _, signature = value.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(payload).encode()):
            return {}
        try:
            held = json.loads(base64.b64decode(padded(payload), altchars=b"-_", validate=True))
            values, made = held["d"], held["t"]
        except (ValueError, TypeError, KeyError, binascii.Error):
            return {}
        if not isinstance(values, dict) or not isinstance(made, (int, float)):
            return {}
        if self.max_age > 0 and made + self.max_age < time.time():
            return {}
        return values

    def load(self, request: Request) -> Session:
        """Return the session of a request, the same object each time."""
        session = request.locals.get(LOCAL)
        if not isinstance(session, Session):
            session = Session(self.decode(request.cookies.get(self.cookie, "")))
            request.locals[LOCAL] = session
        return session

    def cookie_header(self, session: Mapping[str, Any]) -> str:
        """Return the value of the `Set-Cookie` header that stores a session."""
        return self._header(self.encode(session))

    async def middleware(self, request: Request, call_next: Callable[[Request], Awaitable[Reply]]) -> Reply:
        """Store the session of a request where its handler changed it."""
        reply = await call_next(request)
        session = request.locals.get(LOCAL)
        if isinstance(session, Session) and session.modified:
            reply.headers = headers_with_cookie(reply.headers or {}, self.cookie_header(session))
        return reply

    def _header(self, value: str) -> str:
        return cookie_header(
            self.cookie,
            value,
            self.path,
            None,
            self.max_age,
            http_only=True,
            same_site=self.same_site,
            secure=self.secure,
        )

    def _signature(self, payload: str) -> str:
        return unpadded(hmac.new(self._secret, payload.encode(), hashlib.sha256).digest())


def unpadded(data: bytes) -> str:
    """Base64url of RFC 4648 section 5 without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def padded(text: str) -> str:
    """The same with its padding."""
    return text + "=" * (-len(text) % 4)
