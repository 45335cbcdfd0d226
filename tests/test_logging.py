"""Log lines as JSON (api.md 16.6)."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx

from oxbrook import JsonFormatter, json_logging
from tests.support import DEADLINE, Command


def line_of(**fields: Any) -> dict[str, Any]:
    text = JsonFormatter().format(logging.makeLogRecord({"name": "oxbrook", "levelname": "INFO", **fields}))
    assert "\n" not in text
    members: dict[str, Any] = json.loads(text)
    return members


def test_a_line_holds_time_level_logger_message_and_extras_in_that_order() -> None:
    members = line_of(msg="%s and %d", args=("a", 2), created=0.25, path="/x", n=[1])
    assert list(members) == ["time", "level", "logger", "message", "path", "n"]
    assert members["message"] == "a and 2"
    assert members["time"] == "1970-01-01T00:00:00.250000Z"
    assert datetime.fromisoformat(members["time"]).tzinfo is not None
    assert (members["path"], members["n"]) == ("/x", [1])


def test_an_exception_and_line_breaks_stay_on_one_line() -> None:
    try:
        raise ValueError("in two\nlines")
    except ValueError:
        members = line_of(msg="broken\nmessage", exc_info=sys.exc_info())
    assert members["message"] == "broken\nmessage"
    assert list(members)[-1] == "exception"
    assert members["exception"].startswith("Traceback")
    assert members["exception"].endswith("ValueError: in two\nlines")


class Bad:
    def __repr__(self) -> str:
        raise RuntimeError


def test_what_has_no_json_form_is_told_by_its_repr_and_the_rest_is_kept() -> None:
    members = line_of(msg="m", thing=object, bad=Bad(), wide="\ud800", fine=1)
    assert members["thing"] == "<class 'object'>"
    assert members["bad"] == "<Bad>"
    assert members["wide"] == "'\\ud800'"
    assert members["fine"] == 1


def test_json_logging_twice_gives_one_handler_and_no_propagation() -> None:
    logger = logging.getLogger("oxbrook")
    json_logging()
    json_logging(logging.WARNING)
    assert [type(handler.formatter) for handler in logger.handlers] == [JsonFormatter]
    assert (logger.level, logger.propagate) == (logging.WARNING, False)


def test_an_unhandled_exception_is_one_json_line_on_stderr(serve: Callable[..., Command]) -> None:
    source = """
        from oxbrook import App, json_logging

        json_logging()
        app = App()

        @app.get("/broken")
        async def broken():
            raise ValueError("why")
    """
    server = serve(source)
    assert httpx.get(f"{server.url}/broken", timeout=DEADLINE).status_code == 500
    assert server.stop() == 0
    (line,) = server.err.lines
    members = json.loads(line)
    assert (members["level"], members["logger"], members["path"]) == ("ERROR", "oxbrook", "/broken")
    assert "ValueError: why" in members["exception"]
