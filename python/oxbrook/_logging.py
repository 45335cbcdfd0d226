"""Log lines as JSON (api.md 16.6).

Invariant: a record becomes exactly one line, whatever it holds.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from oxbrook._core import encode_json

if TYPE_CHECKING:
    from oxbrook._core import Request
    from oxbrook._responses import Reply

# What every record has; what else is there was given as `extra`.
STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Writes one JSON object a line: `time level logger message`, then extras, then `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, without its end."""
        members: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in STANDARD and name not in members:
                members[name] = value
        if record.exc_info:
            members["exception"] = self.formatException(record.exc_info)
        try:
            return encode_json(members).decode()
        except Exception:  # a value without a JSON form, or one whose code raises
            return encode_json({name: told(value) for name, value in members.items()}).decode()


def told(value: object) -> object:
    """Return a value if it has a JSON form, else what it says of itself."""
    try:
        encode_json(value)
    except Exception:
        try:
            return repr(value).encode("utf-8", "backslashreplace").decode()
        except Exception:
            return f"<{type(value).__name__}>"
    return value


async def access_middleware(request: Request, call_next: Callable[[Request], Awaitable[Reply]]) -> Reply:
    """Log one request as the access log does, on routes it is registered around.

    Kept for programs that import it: `App(access_log=True)` sees every answer, and costs less.
    """
    from oxbrook._access import write

    begun = time.perf_counter()
    target = request.path if request.query is None else f"{request.path}?{request.query}"

    def ended(status: int, is_failure: bool) -> None:
        write(request.method, target, status, (time.perf_counter() - begun) * 1000, is_failure)

    try:
        reply = await call_next(request)
    except Exception:
        ended(500, True)
        raise
    status = reply.status or getattr(reply.value, "status", None) or 200
    ended(status, False)
    return reply


def json_logging(level: int = logging.INFO) -> None:
    """Have the `oxbrook` logger write JSON lines to stderr, and nothing to the handlers above it."""
    logger = logging.getLogger("oxbrook")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False
