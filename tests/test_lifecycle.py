"""Start, stop and signals: a server gives back what it took of the process, as often as it is asked to."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from tests.support import DEADLINE, Command, eventually

# Not on free-threaded builds: there uvloop is not installed.
LOOPS = ["asyncio", *(["uvloop"] if find_spec("uvloop") else [])]

APP = """
    import asyncio

    from oxbrook import App

    app = App()

    @app.get("/")
    async def hello():
        return "hello"

    @app.get("/slow")
    async def slow():
        await asyncio.sleep(0.3)
        return "slow"
"""

THREE_TIMES = """
    import signal
    import sys
    import threading
    import time

    import httpx
    from oxbrook import App

    app = App()

    @app.get("/")
    async def hello():
        return "hello"

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    for turn in range(3):
        handle = app.build_server("127.0.0.1", 0, 1, 64, 1000, 30.0, 10.0, 64, 16777216)

        def visit(handle=handle):
            host, port = handle.wait_started()
            assert httpx.get(f"http://{host}:{port}/", timeout=20).text == "hello"
            handle.shutdown()

        visitor = threading.Thread(target=visit)
        visitor.start()
        handle.serve()
        visitor.join()
        assert [signal.getsignal(number) for number in numbers] == before, turn
        assert signal.set_wakeup_fd(-1) == -1, turn
        left = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
        assert left == [], (turn, left)
    try:
        print("ready", flush=True)
        # In short pieces: a signal right before a sleep is seen after it.
        while True:
            time.sleep(0.01)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(0)
"""


def test_serving_three_times_leaves_the_process_as_it_was_and_ctrl_c_works_again(
    write: Callable[[str, str], Path],
) -> None:
    script = write("three.py", THREE_TIMES)
    child = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stderr is not None
        first = child.stdout.readline()
        assert first == "ready\n", child.stderr.read()
        child.send_signal(signal.SIGINT)
        rest, errors = child.communicate(timeout=DEADLINE)
        assert (rest, child.returncode) == ("interrupted\n", 0), errors
    finally:
        child.kill()
        child.wait()


class Load:
    """Eight clients that ask until the server is gone, and what they met."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.stopping = threading.Event()
        self.wrong: list[str] = []
        self.answered: list[int] = []
        self.clients = [threading.Thread(target=self.ask) for _ in range(8)]
        for client in self.clients:
            client.start()

    def ask(self) -> None:
        with httpx.Client(base_url=self.url, timeout=DEADLINE) as client:
            while True:
                try:
                    answer = client.get("/slow" if len(self.answered) % 7 == 0 else "/")
                except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError) as error:
                    # Nobody listens any more, or an idle connection was closed while the request was on its
                    # way (RFC 9112 section 9.6): that is what a stop is.
                    if not self.stopping.is_set():
                        self.wrong.append(repr(error))
                    return
                self.answered.append(answer.status_code)


def test_a_stop_under_load_loses_no_request_and_exits_0(serve: Callable[..., Command]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT) * 3:
        server = serve(APP)
        load = Load(server.url)
        eventually(lambda load=load: len(load.answered) > 100, "some load")  # type: ignore[misc]
        load.stopping.set()
        assert server.stop(number) == 0, server.err.text
        for client in load.clients:
            client.join(DEADLINE)
        assert load.wrong == []
        assert set(load.answered) == {200}
        assert server.err.text == ""


DYING = """
    import asyncio
    import sys

    from oxbrook import App

    app = App()

    @app.get("/")
    async def hello():
        return "hello"

    @app.get("/cancels")
    async def cancels():
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        await asyncio.sleep(0.01)
        return "cancelled"

    @app.get("/task")
    async def from_task():
        async def leave():
            await asyncio.sleep(0.01)
            sys.exit(0)
        await asyncio.create_task(leave())

    @app.get("/callback")
    async def from_callback():
        asyncio.get_running_loop().call_soon(sys.exit, 0)
        await asyncio.sleep(1)

    @app.get("/stop")
    async def stops():
        asyncio.get_running_loop().stop()
"""


@pytest.mark.parametrize("path", ["/task", "/callback", "/stop"])
def test_a_loop_that_ends_in_service_ends_the_server_with_an_error(
    serve: Callable[..., Command], path: str
) -> None:
    server = serve(DYING, "--shutdown-grace", "1")
    with contextlib.suppress(httpx.HTTPError):
        httpx.get(server.url + path, timeout=DEADLINE)
    assert server.ended() == 1
    assert "ended while it served" in server.err.text


def test_an_app_that_cancels_every_task_of_its_loop_goes_on_serving(serve: Callable[..., Command]) -> None:
    server = serve(DYING)
    for _ in range(3):
        assert httpx.get(f"{server.url}/cancels", timeout=DEADLINE).text == "cancelled"
        assert httpx.get(f"{server.url}/", timeout=DEADLINE).text == "hello"
    assert server.stop() == 0


def test_r28_a_stop_waits_for_no_connection_that_has_nothing_in_progress(
    serve: Callable[..., Command],
) -> None:
    import socket

    server = serve(APP, "--shutdown-grace", "20")
    host, _, port = server.url.removeprefix("http://").partition(":")
    silent = socket.create_connection((host, int(port)))
    idle = httpx.Client(base_url=server.url, timeout=DEADLINE)
    assert idle.get("/").text == "hello"
    server.process.send_signal(signal.SIGTERM)
    silent.settimeout(DEADLINE)
    assert silent.recv(1) == b"", "closed without an answer"
    assert server.ended() == 0
    assert "grace" not in server.err.text
    silent.close()
    idle.close()


STUBBORN = """
    import asyncio
    import atexit
    import time

    from oxbrook import App, Stream

    app = App()
    seen = []
    kept = []
    atexit.register(print, "exit functions ran", flush=True)

    async def swallow():
        while True:
            try:
                await asyncio.sleep(600)
            except BaseException:
                pass

    async def background():
        try:
            await asyncio.sleep(600)
        finally:
            seen.append("cancelled")
            print("tearing down", flush=True)
            await asyncio.sleep(600)

    @app.get("/swallows")
    async def swallows():
        seen.append("began")
        await swallow()

    @app.get("/task")
    async def task():
        kept.append(asyncio.create_task(swallow()))
        await asyncio.sleep(0)
        seen.append("began")

    @app.get("/thread")
    async def thread():
        seen.append("began")
        await asyncio.to_thread(time.sleep, 600)

    @app.get("/blocking", blocking=True)
    def blocking():
        seen.append("began")
        time.sleep(600)

    @app.get("/step")
    async def step():
        print("began", flush=True)
        time.sleep(600)

    @app.get("/generator")
    async def generator():
        async def endless():
            try:
                yield 1
            finally:
                await swallow()
        kept.append(endless())
        await anext(kept[-1])
        seen.append("began")

    @app.get("/background")
    async def start_background():
        kept.append(asyncio.create_task(background()))
        await asyncio.sleep(0)
        seen.append("began")

    @app.get("/wait")
    async def wait():
        seen.append("began")
        await asyncio.sleep(600)

    @app.get("/stream")
    async def stream():
        async def source():
            seen.append("began")
            yield b"first"
            await asyncio.sleep(600)
        return Stream(source())

    @app.get("/seen")
    async def report():
        return seen
"""


def ask_in_background(url: str) -> list[httpx.Response]:
    """Ask once; what was answered appears in the list that is returned."""
    answers: list[httpx.Response] = []

    def ask() -> None:
        with contextlib.suppress(httpx.HTTPError):
            answers.append(httpx.get(url, timeout=600))

    threading.Thread(target=ask, daemon=True).start()
    return answers


def begin(server: Command, path: str) -> list[httpx.Response]:
    answers = ask_in_background(server.url + path)
    if path == "/step":
        server.out.wait_for("began")
    else:
        eventually(
            lambda: httpx.get(f"{server.url}/seen", timeout=DEADLINE).json() == ["began"], "the handler began"
        )
    return answers


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("path", ["/swallows", "/task", "/thread", "/blocking", "/step", "/generator"])
def test_a_stop_ends_whatever_the_app_does(serve: Callable[..., Command], path: str, loop: str) -> None:
    """Nothing of an app can keep the process: what outlasts the grace is left behind, the status is 0."""
    server = serve(STUBBORN, "--shutdown-grace", "0.2", "--loop", loop)
    begin(server, path)
    assert server.stop() == 0, server.err.text
    assert server.out.lines[-1] == "exit functions ran"
    lines = server.err.text.splitlines()
    assert all(line.startswith("oxbrook: ") for line in lines), lines
    if path != "/blocking":  # its thread is none of the loop's
        assert lines[-1] == "oxbrook: 1 worker(s) still tearing down after the shutdown grace"


@pytest.mark.parametrize("path", ["/wait", "/swallows", "/background"])
def test_a_second_stop_signal_ends_the_grace_wherever_it_is_spent(
    serve: Callable[..., Command], path: str
) -> None:
    server = serve(STUBBORN, "--shutdown-grace", "500")
    begin(server, path)
    # Two of one kind sent at once would be one.
    server.process.send_signal(signal.SIGINT)
    if path == "/background":
        server.out.wait_for("tearing down")
    assert server.stop(signal.SIGTERM) == 0, server.err.text


def test_a_grace_that_is_over_is_an_answer_to_who_waits_and_no_error_in_the_log(
    serve: Callable[..., Command],
) -> None:
    server = serve(STUBBORN, "--shutdown-grace", "0.2")
    answers = begin(server, "/wait")
    with httpx.stream("GET", f"{server.url}/stream", timeout=DEADLINE) as stream:
        pieces = stream.iter_raw()
        assert next(pieces) == b"first"
        assert server.stop() == 0
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)
    assert server.err.text == "oxbrook: shutdown grace expired with 2 request(s) still in flight"
    eventually(lambda: answers, "the client that waited has an answer")
    assert answers[0].status_code == 503
    assert answers[0].headers["connection"] == "close"


# Where a signal meets an app that is imported: in its own lines, inside text that is run, where what is
# raised is swallowed, and where every exception is caught.
PLACES = {
    "lines": "wait()",
    "exec": "exec('wait()')",
    "finalizer": """
class Finalized:
    def __del__(self):
        wait()
Finalized()
""",
    "caught": """
try:
    wait()
except BaseException:
    pass
""",
}

EARLY = """
    import atexit
    import time

    from oxbrook import App

    app = App()

    def wait():
        print("waiting", flush=True)
        # In short pieces: a signal right before a sleep is seen after it.
        for _ in range(60_000):
            time.sleep(0.01)

    def last():
        print("leaving", flush=True)
        {last}

    atexit.register(last)
{place}
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("place", PLACES)
def test_a_stop_signal_while_the_app_is_imported_ends_with_status_0(
    serve: Callable[..., Command], place: str, number: signal.Signals
) -> None:
    server = serve(EARLY.replace("{place}", textwrap.indent(PLACES[place], "    ")).replace("{last}", ""))
    server.out.wait_for("waiting")
    assert server.stop(number) == 0
    server.out.wait_for("leaving")
    assert "listening" not in server.out.text
    # A finalizer's exception is printed by the interpreter, whatever it is.
    assert "ignored" in server.err.text if place == "finalizer" else server.err.text == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_after_the_server_ends_with_status_0(
    serve: Callable[..., Command], number: signal.Signals
) -> None:
    server = serve(EARLY.replace("{place}", "").replace("{last}", "wait()"))
    server.out.wait_for("listening")
    server.process.send_signal(number)
    server.out.wait_for("leaving")
    server.process.send_signal(number)
    assert server.ended() == 0
    assert server.err.text == ""
