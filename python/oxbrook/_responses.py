"""What a handler may return to say more than a value does: `Response`, `Reply`, `Stream`... (api.md 5.2).

They are turned into bytes by `crates/oxb-py/src/reply.rs`, which reads their attributes.

Invariant: an answer never changes once made, so one object may be returned by any number of requests
at once; `set_cookie` and `delete_cookie` return a copy.
"""

import copy
import os
import re
from collections.abc import AsyncIterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Self

# A list or tuple sends the header once per item.
Headers = Mapping[str, str | list[str] | tuple[str, ...]]

# RFC 6265 section 4.1.1; a value may stand in double quotes, and nothing is encoded for the caller.
COOKIE_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
COOKIE_VALUE: Final = re.compile(r'[!#-+\--:<-\[\]-~]*|"[!#-+\--:<-\[\]-~]*"')
# What would end an attribute, or the whole header.
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
ATTRIBUTE_END: Final = re.compile(r"[;\x00-\x08\x0a-\x1f\x7f]")
# RFC 3986 sections 2.1 to 2.3: neither reserved nor unreserved, nor the sign of what is encoded already.
NO_URI: Final = re.compile(r"[^!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]+")


class Headed:
    """What all answers share: header fields and the cookies among them."""

    __slots__ = ()

    headers: Headers

    def header_list(self) -> list[tuple[str, str]] | None:
        """The header fields as (name, value) pairs in order, a list's items apart; None without any."""
        if not self.headers:
            return None
        pairs: list[tuple[str, str]] = []
        for name, value in self.headers.items():
            if isinstance(value, (list, tuple)):
                pairs.extend((name, item) for item in value)
            else:
                pairs.append((name, value))
        return pairs

    def set_cookie(
        self,
        name: str,
        value: str = "",
        *,
        path: str = "/",
        domain: str | None = None,
        max_age: int | None = None,
        http_only: bool = True,
        same_site: str | None = "Lax",
        secure: bool = True,
    ) -> Self:
        """Return a copy with one more `Set-Cookie` header; `max_age` is in seconds.

        Raises: ValueError for what the cookie grammar of RFC 6265 section 4.1.1 forbids, for a `same_site`
            other than "Lax", "Strict", "None" or None (left out), and for "None" without `secure`.
        """
        cookie = cookie_header(name, value, path, domain, max_age, http_only, same_site, secure)
        return self._with_cookie(cookie)

    def delete_cookie(self, name: str, *, path: str = "/", domain: str | None = None) -> Self:
        """Return a copy that tells the client to drop a cookie set with the same path and domain."""
        return self.set_cookie(name, path=path, domain=domain, max_age=0)

    def _with_cookie(self, cookie: str) -> Self:
        headers = headers_with_cookie(self.headers, cookie)
        # Not `dataclasses.replace`: a subclass may be constructed in another way.
        changed = copy.copy(self)
        object.__setattr__(changed, "headers", headers)
        return changed


@dataclass(frozen=True, slots=True)
class Response(Headed):
    """A whole answer: its body as it is, text as UTF-8.

    `content_type=None` sends none; a `Content-Type` among `headers` goes before `content_type`.
    """

    body: bytes | bytearray | memoryview | str = b""
    status: int = 200
    content_type: str | None = "application/json"
    headers: Headers = field(default_factory=dict)

    def encoded(self) -> bytes:
        """The body as it is sent.

        Raises: TypeError if it is neither bytes nor text.
        """
        body = self.body
        if isinstance(body, str):
            return body.encode()
        if isinstance(body, (bytes, bytearray, memoryview)):
            return bytes(body)
        raise TypeError(f"a response body is bytes or str, not {type(body).__name__}")


class Redirect(Response):
    """An answer without a body that sends the client to `url`; `status` is 301, 302, 303, 307 or 308.

    Characters that no URI holds (spaces, those outside ASCII) are percent-encoded (RFC 3986 section 2.1).

    Raises: ValueError for another status or a line break in `url`.
    """

    __slots__ = ()

    def __init__(self, url: str, status: int = 307) -> None:
        if status not in (301, 302, 303, 307, 308):
            raise ValueError(f"the status of a Redirect is 301, 302, 303, 307 or 308, not {status!r}")
        if "\r" in url or "\n" in url:
            raise ValueError(f"the url of a Redirect holds a line break: {url!r}")
        super().__init__(b"", status, None, {"Location": NO_URI.sub(percent_encoded, url)})


def percent_encoded(found: re.Match[str]) -> str:
    """Return what was found as the octets of its UTF-8, percent-encoded."""
    return "".join(f"%{octet:02X}" for octet in found[0].encode())


class HTML(Response):
    """An answer of `text` as `text/html; charset=utf-8`."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        super().__init__(text, 200, "text/html; charset=utf-8")


@dataclass(slots=True)
class Reply:
    """A value with a status and headers of its own; middleware gets one from `call_next` and may change it.

    `status` None is that of the value. Around a `Response` or `Stream`, its body and content type stay,
    `status` goes before its own, and `headers` are added, replacing those of equal names (`Set-Cookie` stands
    beside others).
    """

    value: Any = None
    status: int | None = None
    headers: Headers | None = None

    def set_cookie(
        self,
        name: str,
        value: str = "",
        *,
        path: str = "/",
        domain: str | None = None,
        max_age: int | None = None,
        http_only: bool = True,
        same_site: str | None = "Lax",
        secure: bool = True,
    ) -> Self:
        """Add one more `Set-Cookie` header, and return this; errors as in `Response.set_cookie`."""
        cookie = cookie_header(name, value, path, domain, max_age, http_only, same_site, secure)
        self.headers = headers_with_cookie(self.headers or {}, cookie)
        return self

    def delete_cookie(self, name: str, *, path: str = "/", domain: str | None = None) -> Self:
        """Tell the client to drop a cookie set with the same path and domain, and return this."""
        return self.set_cookie(name, path=path, domain=domain, max_age=0)


@dataclass(frozen=True, slots=True)
class Stream(Headed):
    """An answer whose body is sent as `source` gives it, `str` items as UTF-8.

    Chunked over HTTP/1.1, unless `headers` declare a `Content-Length`. The source is not asked for more
    while over 64 KiB are unsent, and it is closed when the client leaves.

    Raises: TypeError if `source` is not an async iterable.
    """

    source: AsyncIterable[bytes | str]
    _: KW_ONLY
    status: int = 200
    content_type: str | None = "application/octet-stream"
    headers: Headers = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not hasattr(type(self.source), "__aiter__"):
            given = type(self.source).__name__
            raise TypeError(f"the source of a Stream is an async iterable of bytes or str, not {given}")


@dataclass(frozen=True, slots=True)
class File(Headed):
    """An answer with the file at `path`, relative to the working directory; the server reads and sends it.

    Ranges and conditions are heeded for `GET` and `HEAD`. `content_type=None` goes by the extension.
    `filename` has browsers save it under that name. Nothing there, or no regular file: 404 and a warning on
    `oxbrook`.

    Raises: TypeError for a `path` that is none; ValueError for a NUL in it, or for a control character or a
        slash in `filename`.
    """

    path: str | os.PathLike[str]
    _: KW_ONLY
    filename: str | None = None
    content_type: str | None = None
    headers: Headers = field(default_factory=dict)
    # A whole file's; a part, a file that is not there and one that has not changed have their own.
    status: int = field(default=200, init=False, repr=False)

    def __post_init__(self) -> None:
        path = os.fspath(self.path)
        if not isinstance(path, str):
            raise TypeError(f"the path of a File is text or a path object, not {type(path).__name__}")
        if "\0" in path:
            raise ValueError(f"the path of a File holds a NUL: {path!r}")
        if self.filename is not None:
            headers = {"Content-Disposition": disposition(self.filename), **self.headers}
            object.__setattr__(self, "headers", headers)


def disposition(filename: str) -> str:
    """The value of `Content-Disposition` that has a file saved under a name (RFC 6266, RFC 8187).

    Raises: ValueError for a control character or a slash.
    """
    if not filename or CONTROL.search(filename) or "/" in filename or "\\" in filename:
        raise ValueError(f"filename is a name without slashes and control characters, not {filename!r}")
    plain = "".join(one if one.isascii() else "_" for one in filename).replace('"', '\\"')
    value = f'attachment; filename="{plain}"'
    if not filename.isascii():
        from urllib.parse import quote

        # What RFC 8187 calls attr-char, beside letters and digits.
        value += f"; filename*=UTF-8''{quote(filename, safe='!#$&+-.^_`|~')}"
    return value


def headers_with_cookie(headers: Headers, cookie: str) -> Headers:
    """Return the headers with one more `Set-Cookie` beside those that are there."""
    more: dict[str, str | list[str] | tuple[str, ...]] = dict(headers)
    key = next((name for name in more if name.lower() == "set-cookie"), "Set-Cookie")
    others = more.get(key, ())
    more[key] = (*((others,) if isinstance(others, str) else others), cookie)
    return more


def cookie_header(
    name: str,
    value: str,
    path: str,
    domain: str | None,
    max_age: int | None,
    http_only: bool,
    same_site: str | None,
    secure: bool,
) -> str:
    """The value of a `Set-Cookie` header; errors as in `Headed.set_cookie`."""
    if not COOKIE_NAME.fullmatch(name):
        raise ValueError(f"not a cookie name: {name!r}")
    if not COOKIE_VALUE.fullmatch(value):
        raise ValueError(f"not a cookie value (nothing is encoded or quoted): {value!r}")
    if same_site not in ("Lax", "Strict", "None", None):
        raise ValueError(f"same_site is 'Lax', 'Strict', 'None' or None, not {same_site!r}")
    if same_site == "None" and not secure:
        raise ValueError("same_site='None' needs secure=True: browsers drop the cookie otherwise")
    for attribute, text in (("path", path), ("domain", domain)):
        if text is not None and ATTRIBUTE_END.search(text):
            raise ValueError(f"{attribute} of a cookie holds ';' or a control character: {text!r}")
    parts = [f"{name}={value}; Path={path}"]
    if domain is not None:
        parts.append(f"Domain={domain}")
    if max_age is not None:
        parts.append(f"Max-Age={max_age}")
    if http_only:
        parts.append("HttpOnly")
    if same_site is not None:
        parts.append(f"SameSite={same_site}")
    if secure:
        parts.append("Secure")
    return "; ".join(parts)
