"""`oxbrook bench`: the user's own app on several engines and event loops, under identical load.

Invariant: every row is of a server that was started here, answered one request as it should before it was
measured, and is ended with its process group however the command ends; a pair that cannot run is named with
the reason.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import quote

from oxbrook import _target
from oxbrook._app import App
from oxbrook._flags import UsageError

ENGINES: Final = ("oxbrook", "granian", "uvicorn")
LOOPS: Final = ("asyncio", "uvloop")
START: Final = 30.0
END: Final = 5.0
# Before the measured window of each round, in seconds.
WARMUP: Final = 1.0
HEADS: Final = ("ENGINE", "LOOP", "REQ/S", "P50 MS", "P95 MS", "P99 MS", "FAILED", "CPU US/REQ", "RATIO")
QUIET: Final = {
    "granian": ("--no-access-log", "--log-level", "warning", "--interface", "asgi"),
    "uvicorn": ("--no-access-log", "--log-level", "warning"),
}


@dataclass(frozen=True)
class Load:
    """What is sent, and for how long."""

    path: str
    method: str
    headers: list[tuple[str, str]]
    payload: str
    connections: int
    duration: float
    rounds: int


@dataclass(frozen=True)
class Place:
    """Where the app is."""

    target: str
    app_dir: str
    is_factory: bool
    is_native: bool


@dataclass
class Row:
    """One engine on one event loop."""

    engine: str
    loop: str
    process: int
    port: int
    status: int
    reports: list[dict[str, Any]] = field(default_factory=list)

    def median(self, *keys: str) -> float:
        """Return the median over the rounds of a figure; NaN where one round has none."""
        values = [figure(report, keys) for report in self.reports]
        return statistics.median(values) if values else float("nan")

    def failed(self) -> int:
        """Return how many requests of all rounds had no good answer."""
        return sum(
            int(figure(report, ("requests", "bad")) + figure(report, ("unanswered",)))
            for report in self.reports
        )


class Unfit(Exception):
    """Why a pair has no row."""


def run(given: Mapping[str, Any], app_dir: str) -> int:
    """Measure and print; 1 if a request failed or nothing could run."""
    load = load_of(given)
    place = place_of(given, app_dir)
    engines = listed("--engines", given["engines"], ENGINES)
    loops = listed("--loops", given["loops"], LOOPS)
    with contextlib.ExitStack() as servers:
        rows = []
        for engine in engines:
            for loop in loops:
                try:
                    rows.append(servers.enter_context(served(engine, loop, place, load)))
                except Unfit as why:
                    print(f"oxbrook bench: {engine} on {loop} is skipped: {why}", file=sys.stderr)
        for _ in range(load.rounds):
            for row in rows:
                row.reports.append(measure(row, load))
    if not rows:
        print("oxbrook bench: nothing to measure", file=sys.stderr)
        return 1
    print(table(rows))
    return 1 if any(row.failed() for row in rows) else 0


def load_of(given: Mapping[str, Any]) -> Load:
    """Return the load of the command line."""
    path = given["path"]
    for text in given["path_param"] or ():
        name, is_pair, value = text.partition("=")
        if not is_pair or f"{{{name}}}" not in path:
            raise UsageError(f"--path-param {text}: should be NAME=VALUE with {{NAME}} in --path")
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    if not path.startswith("/") or "{" in path:
        raise UsageError(f"--path {path}: should begin with / and have a --path-param for each {{NAME}}")
    headers = []
    for text in given["header"] or ():
        name, is_pair, value = text.partition(":")
        if not is_pair or not name.strip():
            raise UsageError(f"--header {text}: should be NAME:VALUE")
        headers.append((name.strip(), value.strip()))
    payload = given["payload"] or ""
    if payload and not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("Content-Type", "application/json"))
    for flag in ("connections", "duration", "rounds"):
        if not 0 < given[flag] < float("inf"):
            raise UsageError(f"--{flag} should be above 0")
    method = given["method"] or ("POST" if payload else "GET")
    return Load(path, method, headers, payload, given["connections"], given["duration"], given["rounds"])


def place_of(given: Mapping[str, Any], app_dir: str) -> Place:
    """Import the target to see what it is; what its own code raises passes through."""
    _target.prefer(app_dir)
    module, attribute = _target.split(given["target"])
    found = _target.find(given["target"])
    if given["factory"] and callable(found):
        found = found()
    if not callable(found) and not isinstance(found, App):
        raise UsageError(f"'{given['target']}' is {_target.describe(found)}, neither an oxbrook.App nor ASGI")
    return Place(f"{module}:{attribute}", app_dir, given["factory"], isinstance(found, App))


def listed(flag: str, text: str, known: Sequence[str]) -> list[str]:
    """Return the words of a list with commas, each once."""
    words = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    unknown = [word for word in words if word not in known]
    if unknown or not words:
        raise UsageError(f"{flag} {text}: should be some of {','.join(known)}")
    return words


def check(engine: str, loop: str, place: Place) -> None:
    """Raise Unfit where the pair cannot run this app here."""
    if place.is_native and engine != "oxbrook":
        raise Unfit("it cannot run an oxbrook.App")
    if not place.is_native and engine == "oxbrook":
        raise Unfit("this oxbrook cannot run an ASGI app yet")
    for package in {engine, loop} - {"asyncio"}:
        if find_spec(package) is None:
            raise Unfit(f"{package} is not installed")


def command(engine: str, loop: str, place: Place, port: int) -> list[str]:
    """Return how the app is served, by one process and one event loop."""
    words = [sys.executable, "-m", engine]
    if engine == "oxbrook":
        words += ["run", "--app-dir", place.app_dir]
    words += [place.target, "--host", "127.0.0.1", "--port", str(port), "--loop", loop, "--workers", "1"]
    words += QUIET.get(engine, ())
    if place.is_factory:
        words.append("--factory")
    return words


@contextlib.contextmanager
def served(engine: str, loop: str, place: Place, load: Load) -> Iterator[Row]:
    """Serve the app, see that it answers, and end the server with all its processes."""
    check(engine, loop, place)
    port = free_port()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command(engine, loop, place, port),
            cwd=place.app_dir,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            wait(process, port, log)
            status = ask(port, load)
            if status >= 400:
                raise Unfit(f"{load.method} {load.path} is answered with {status}")
            yield Row(engine, loop, process.pid, port, status)
        finally:
            end(process)


def wait(process: subprocess.Popen[bytes], port: int, log: Any) -> None:
    """Wait until the server listens; raise Unfit with the last line it wrote where it does not."""
    deadline = time.monotonic() + START
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as connection:
            # A connection may be given the very port it connects to, and then has itself for a peer.
            if connection.getsockname() != connection.getpeername():
                return
        if process.poll() is not None or time.monotonic() > deadline:
            log.seek(0)
            lines = [
                line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()
            ]
            state = "does not listen" if process.poll() is None else "does not start"
            raise Unfit(f"{state}: {lines[-1]}" if lines else state)
        time.sleep(0.02)


def ask(port: int, load: Load) -> int:
    """Send the request once and return the status of its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START)
    try:
        connection.request(load.method, load.path, load.payload.encode() or None, dict(load.headers))
        answer = connection.getresponse()
        answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Unfit(f"{load.method} {load.path} has no answer: {error!r}") from None
    finally:
        connection.close()
    return answer.status


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server and what it started: the process group is its own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END)


def measure(row: Row, load: Load) -> dict[str, Any]:
    """Run the generator, a process of its own, and return its report."""
    description = {
        "url": f"http://127.0.0.1:{row.port}{load.path}",
        "method": load.method,
        "headers": load.headers,
        "body": load.payload,
        "status": row.status,
        "connections": load.connections,
        "warmup": WARMUP,
        "duration": load.duration,
        "process": row.process,
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", "oxbrook._generate"],
        input=json.dumps(description),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        # Ctrl-C is for this process alone, which then ends the generator.
        start_new_session=True,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def figure(report: Any, keys: Sequence[str]) -> float:
    """Return a number of a report; NaN where it could not be measured."""
    for key in keys:
        report = report.get(key) if isinstance(report, dict) else None
    return float("nan") if report is None else float(report)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text; the ratio is of requests a second, to the first row."""
    first = rows[0].median("requests_per_second")
    lines: list[tuple[str, ...]] = [HEADS]
    for row in rows:
        rate = row.median("requests_per_second")
        latency = [f"{row.median('requests', 'latency_ms', key):.2f}" for key in ("p50", "p95", "p99")]
        cpu = row.median("server", "cpu_us_per_request")
        ratio = rate / first if first else float("nan")
        figures = (f"{rate:,.0f}", *latency, str(row.failed()), f"{cpu:.1f}", f"{ratio:.2f}")
        lines.append((row.engine, row.loop, *figures))
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column < 2 else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def free_port() -> int:
    """Return a port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
