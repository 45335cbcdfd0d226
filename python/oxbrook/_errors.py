"""Errors as a client sees them: `HTTPError`, and the answer to any other exception (api.md 6).

Invariant 7: no text of an exception reaches a client unless `debug` is on for that app; only what an
`HTTPError` was given does.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from oxbrook._core import encode_json, status_title
from oxbrook._responses import Headers, Response

if TYPE_CHECKING:
    from pydantic import ValidationError

    from oxbrook._core import Request

LOGGER: Final = logging.getLogger("oxbrook")
CONTENT_TYPE: Final = "application/problem+json"
STANDARD_MEMBERS: Final = frozenset({"type", "title", "status", "detail", "instance"})


class HTTPError(Exception):
    """Raised by a handler to answer with this status and a problem body (RFC 9457).

    `detail` says what went wrong this time, `title` names the problem (default: the status's own name),
    `type` and `instance` are URIs, `extensions` are further members of the body, `headers` go beside it.

    Raises: ValueError for a status outside 400 to 599 or an extension named like a standard member;
        TypeError for a `detail` that is no text.
    """

    def __init__(
        self,
        status: int,
        detail: str | None = None,
        headers: Headers | None = None,
        *,
        type: str = "about:blank",
        title: str | None = None,
        instance: str | None = None,
        extensions: Mapping[str, object] | None = None,
    ) -> None:
        if not isinstance(status, int) or not 400 <= status <= 599:
            raise ValueError(f"status of an HTTPError is an int from 400 to 599, not {status!r}")
        if detail is not None and not isinstance(detail, str):
            raise TypeError(
                f"detail is text, not {detail.__class__.__name__}: structured data goes into extensions="
            )
        taken = STANDARD_MEMBERS.intersection(extensions or ())
        if taken:
            names = ", ".join(sorted(taken))
            raise ValueError(f"extensions cannot replace the standard members of a problem: {names}")
        super().__init__(status, detail, headers)
        self.status = int(status)
        self.detail = detail
        self.headers = headers
        self.type = type
        self.title = title
        self.instance = instance
        self.extensions = extensions

    def __str__(self) -> str:
        return self.detail or self.title or status_title(self.status)


class RequestValidationError(Exception):
    """Raised for a body that is not what a handler declared; it becomes a 422 unless a handler is registered.

    `errors` is the list that says what is wrong, `body` the problem that is sent.
    """

    def __init__(self, errors: list[Any], text: bytes | None = None) -> None:
        super().__init__(errors)
        self.errors = errors
        listed = encode_json(errors) if text is None else text
        title = status_title(422)
        self.body = b'{"type":"about:blank","title":"%b","status":422,"errors":%b}' % (title.encode(), listed)

    @classmethod
    def of(cls, error: "ValidationError") -> "RequestValidationError":
        """Make one of what pydantic found."""
        import json

        try:
            text = error.json()
        except ValueError:
            # What was given has no JSON form, a body that is no UTF-8 for example.
            listed = json.loads(error.json(include_input=False))
            return cls(
                [with_input(one, found["input"]) for one, found in zip(listed, error.errors(), strict=True)]
            )
        odd: list[str] = []
        # `NaN` and its like are no JSON (RFC 8259 section 6): null stands for them, as in every other answer.
        errors = json.loads(text, parse_constant=odd.append)
        return cls(errors, None if odd else text.encode())

    def __str__(self) -> str:
        return f"{len(self.errors)} error(s) in the body"


def with_input(one: dict[str, Any], given: object) -> dict[str, Any]:
    """Return an entry of pydantic's list with what was given, as text, in its place."""
    text = given.decode(errors="replace") if isinstance(given, bytes) else repr(given)
    last = ("ctx", "url")
    return {
        **{key: value for key, value in one.items() if key not in last},
        "input": text,
        **{key: one[key] for key in last if key in one},
    }


def refusal(error: Exception) -> Exception:
    """Return what is raised for a body that a model was not made of."""
    from pydantic import ValidationError

    return RequestValidationError.of(error) if isinstance(error, ValidationError) else error


class BadResponseHeader(ValueError):
    """A header field of an answer that HTTP forbids; the text names it. Raised by the extension only."""


def problem(
    status: int,
    detail: str | None = None,
    *,
    type: str = "about:blank",
    title: str | None = None,
    instance: str | None = None,
    extensions: Mapping[str, object] | None = None,
) -> bytes:
    """The body of a problem: members in the order of api.md 6.1, compact JSON.

    Raises: TypeError for an extension that has no JSON form.
    """
    members: dict[str, object] = {
        "type": type,
        "title": status_title(status) if title is None else title,
        "status": status,
    }
    if detail is not None:
        members["detail"] = detail
    if instance is not None:
        members["instance"] = instance
    members.update(extensions or {})
    return encode_json(members)


def answer(exc: BaseException, request: "Request | None", debug: bool) -> Response:
    """The reply to an exception of a handler, or of what it returned.

    An `HTTPError` is the reply it describes, a `RequestValidationError` its 422. Everything else is logged
    here, once, at ERROR on `oxbrook` with extras `method` and `path`, and is a 500 whose detail holds its
    text only if `debug`.
    """
    if isinstance(exc, HTTPError):
        try:
            body = problem(
                exc.status,
                exc.detail,
                type=exc.type,
                title=exc.title,
                instance=exc.instance,
                extensions=exc.extensions,
            )
        except Exception as error:  # an extension without a JSON form
            exc = error
        else:
            return Response(body, exc.status, CONTENT_TYPE, exc.headers or {})
    if isinstance(exc, RequestValidationError):
        return Response(exc.body, 422, CONTENT_TYPE)
    method = request.method if request is not None else "-"
    path = request.path if request is not None else "-"
    extra = {"method": method, "path": path}
    if request is not None:
        request._unhandled()
    if isinstance(exc, BadResponseHeader):
        LOGGER.error("%s %s: bad response header: %s", method, path, exc, extra=extra)
        return Response(problem(500, "bad response header"), 500, CONTENT_TYPE)
    LOGGER.error("%s %s: unhandled exception", method, path, exc_info=exc, extra=extra)
    return Response(problem(500, describe(exc) if debug else None), 500, CONTENT_TYPE)


def describe(exc: BaseException) -> str:
    """`TypeName: text` of an exception, whatever its `__str__` does, as text that UTF-8 can carry."""
    try:
        text = f"{type(exc).__name__}: {exc}"
    except Exception:
        text = type(exc).__name__
    return text.encode("utf-8", "backslashreplace").decode()
