"""Log lines as JSON (api.md 16.6).

Invariant: a record becomes exactly one line, whatever it holds.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Final

from oxbrook._core import encode_json

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


def json_logging(level: int = logging.INFO) -> None:
    """Have the `oxbrook` logger write JSON lines to stderr, and nothing to the handlers above it."""
    logger = logging.getLogger("oxbrook")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False
