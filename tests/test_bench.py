"""`oxbrook bench`: native apps on oxbrook, ASGI apps on the others, what cannot run is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import Command

Write = Callable[[str, str], Path]
Run = Callable[..., Command]

NATIVE = """
from oxbrook import App, Request
app = App()

@app.post("/jobs/{id}")
async def job(id: int, request: Request):
    assert request.header("x-key") == "v" and request.header("content-type") == "application/json"
    return {"id": id, "size": len(request.body)}

def make():
    return app
"""
ASGI = """
import os
async def app(scope, receive, send):
    assert scope["type"] == "http"
    open(f"pid-{os.getpid()}", "w").close()
    status = 404 if scope["path"] == "/missing" else 200
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
"""
SHORT = ("--duration", "0.3", "--rounds", "1", "-c", "4")


def figures(command: Command) -> list[list[str]]:
    """The rows of the table."""
    assert command.out.lines[0].split()[:2] == ["ENGINE", "LOOP"], command.err.text
    return [line.split() for line in command.out.lines[1:]]


@pytest.mark.parametrize("target", [("main:app",), ("main:make", "--factory")])
def test_a_native_app_is_measured_on_oxbrook_and_the_others_are_named(
    run: Run, write: Write, target: tuple[str, ...]
) -> None:
    write("main.py", NATIVE)
    request = ("--path", "/jobs/{id}", "--path-param", "id=7", "--payload", "{}", "--header", "x-key: v")
    command = run("bench", *target, *request, *SHORT)
    assert command.ended() == 0, command.err.text
    [row] = figures(command)
    assert row[:2] == ["oxbrook", "asyncio"]
    assert float(row[2].replace(",", "")) > 0
    assert row[6] == "0", "failed"
    assert row[8] == "1.00", "ratio to itself"
    for engine in ("granian", "uvicorn"):
        assert f"{engine} on asyncio is skipped: it cannot run an oxbrook.App" in command.err.text


def test_an_asgi_app_is_measured_on_the_engines_that_are_installed_and_nothing_is_left(
    run: Run, write: Write, tmp_path: Path
) -> None:
    write("main.py", ASGI)
    command = run("bench", "main:app", *SHORT)
    code = command.ended()
    assert "oxbrook on asyncio is skipped: this oxbrook cannot run an ASGI app yet" in command.err.text
    installed = [engine for engine in ("granian", "uvicorn") if find_spec(engine) is not None]
    for engine in {"granian", "uvicorn"} - set(installed):
        assert f"{engine} on asyncio is skipped: {engine} is not installed" in command.err.text
    if not installed:
        assert code == 1
        assert "nothing to measure" in command.err.text
        return
    assert code == 0, command.err.text
    assert [row[0] for row in figures(command)] == installed
    for left in tmp_path.glob("pid-*"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(left.name.removeprefix("pid-")), 0)


def test_an_engine_that_is_not_there_is_named_and_one_that_is_runs_an_asgi_app(
    run: Run, write: Write
) -> None:
    """A stand-in for uvicorn, so that this half is tested where no other engine is installed."""
    write("main.py", ASGI)
    write(
        "uvicorn.py",
        """
        import sys
        from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
        assert sys.argv[1] == "main:app" and sys.argv[sys.argv.index("--loop") + 1] == "asyncio"
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def do_GET(self):
                self.send_response(404 if self.path == "/missing" else 200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"ok")
            def log_message(self, *_):
                pass
        port = int(sys.argv[sys.argv.index("--port") + 1])
        ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
        """,
    )
    command = run("bench", "main:app", "--engines", "uvicorn", *SHORT)
    assert command.ended() == 0, command.err.text
    [row] = figures(command)
    assert row[:2] == ["uvicorn", "asyncio"]
    missing = run("bench", "main:app", "--engines", "uvicorn", "--path", "/missing", *SHORT)
    assert missing.ended() == 1
    assert "uvicorn on asyncio is skipped: GET /missing is answered with 404" in missing.err.text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--engines", "ox"), "--engines ox: should be some of oxbrook,granian,uvicorn"),
        (("--loops", ""), "--loops : should be some of asyncio,uvloop"),
        (("--path", "/{id}"), "should begin with / and have a --path-param for each {NAME}"),
        (("--path-param", "id=7"), "--path-param id=7: should be NAME=VALUE with {NAME} in --path"),
        (("--header", "x"), "--header x: should be NAME:VALUE"),
        (("-c", "0"), "--connections should be above 0"),
        (("--rounds", "0"), "--rounds should be above 0"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(
    run: Run, write: Write, arguments: tuple[str, ...], text: str
) -> None:
    write("main.py", NATIVE)
    command = run("bench", "main:app", *arguments)
    assert command.ended() == 2
    assert text in command.err.text
    assert "Traceback" not in command.err.text


def test_an_app_that_does_not_start_is_named_with_its_last_line(run: Run, write: Write) -> None:
    write("main.py", NATIVE + "\nimport sys\nif 'bench' not in sys.argv:\n    raise ValueError('not here')\n")
    command = run("bench", "main:app", *SHORT)
    assert command.ended() == 1
    assert "oxbrook on asyncio is skipped: does not start: ValueError: not here" in command.err.text
