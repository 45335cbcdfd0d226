"""The command: flags, variables, texts and exit codes (api.md 1.6)."""

from __future__ import annotations

import json
import math
import os
import platform
import signal
import socket
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import oxbrook
from oxbrook import App, _flags
from oxbrook._cli import build_parser
from oxbrook._flags import SERVER, Flag, UsageError, place_options, server_options, value_of
from tests.support import DEADLINE, Command

Write = Callable[[str, str], Path]
Run = Callable[..., Command]

APP = """
import logging
from oxbrook import App
app = App()

@app.get("/")
async def index():
    return "hello"

@app.post("/items/{item_id}", blocking=True)
def item(item_id: int):
    return item_id

@app.get("/level", inline=True)
def level():
    return [logging.getLogger("oxbrook").level, logging.getLogger().handlers[0].formatter._fmt]

def make():
    return app
"""
ROUTES = """\
METHOD  PATH              HANDLER     NOTES
GET     /                 main.index
POST    /items/{item_id}  main.item   blocking
GET     /level            main.level  inline
GET     /openapi.json     oxbrook     built in
GET     /docs             oxbrook     built in
"""


app: Any = App()
NUMBERS = [
    flag for flag in (*_flags.PLACES, *SERVER) if flag.name not in ("host", "uds", "fd", "loop", "uds_mode")
]
TIMEOUTS = [flag.name for flag in SERVER if flag.name.endswith("_timeout") and flag.name != "queue_timeout"]
PLAIN = {
    "host": "127.0.0.1",
    "port": 0,
    "workers": 1,
    "max_concurrency": 1,
    "max_body": 1,
    "max_connections": 1,
    "request_timeout": 1.0,
    "shutdown_grace": 1.0,
    "max_message": 16777216,
}


def given(*arguments: str) -> dict[str, Any]:
    """Parse the arguments of `run`."""
    return vars(build_parser().parse_args(["run", *arguments]))


def test_run_serves_prints_the_banner_and_ends_with_0_on_either_signal(run: Run, write: Write) -> None:
    write("main.py", APP)
    for number in (signal.SIGTERM, signal.SIGINT):
        server = run("run", "--port", "0")
        assert httpx.get(server.url, timeout=DEADLINE).text == "hello"
        assert server.stop(number) == 0
        assert server.err.text == ""
        first, second = server.out.lines
        kind = "GIL" if getattr(sys, "_is_gil_enabled", lambda: True)() else "free-threaded"
        minor = f"{sys.version_info.major}.{sys.version_info.minor}"
        assert first.startswith("Oxbrook: ")
        assert f" worker loop(s), max 1024 concurrent/worker, {kind} Python {minor}, " in first
        assert second == f"Oxbrook listening on {server.url}"


def test_the_banner_names_loops_limit_implementation_and_debug(run: Run, write: Write) -> None:
    write("main.py", APP.replace("App()", "App(debug=True)"))
    server = run("run", "--port", "0", "--workers", "2", "--max-concurrency", "7", "--loop", "asyncio")
    assert server.url
    assert server.out.lines[0].startswith("Oxbrook: 2 worker loop(s), max 7 concurrent/worker, ")
    assert server.out.lines[0].endswith(", asyncio, debug")


def test_without_a_command_the_help_is_printed_and_the_status_is_2(run: Run) -> None:
    command = run()
    assert command.ended() == 2
    assert "usage: oxbrook" in command.out.text
    for name in ("run", "routes", "--version"):
        assert name in command.out.text


def test_version_names_package_interpreter_and_gil(run: Run) -> None:
    command = run("--version")
    assert command.ended() == 0
    kind = "GIL" if getattr(sys, "_is_gil_enabled", lambda: True)() else "free-threaded"
    assert command.out.text == f"oxbrook {oxbrook.__version__} (Python {platform.python_version()}, {kind})"


@pytest.mark.parametrize("name", ["oxbrook", "oxb"])
def test_both_scripts_are_the_command(name: str) -> None:
    script = Path(sysconfig.get_path("scripts")) / name
    done = subprocess.run(
        [script, "--version"], capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert (done.returncode, done.stdout.split()[0]) == (0, "oxbrook")


def test_routes_lists_what_is_registered(run: Run, write: Write) -> None:
    write("main.py", APP)
    table = run("routes", "main")
    assert (table.ended(), table.out.text + "\n") == (0, ROUTES)
    listed = run("routes", "main:make", "--factory", "--json")
    assert listed.ended() == 0
    assert json.loads(listed.out.text) == [
        {"method": "GET", "path": "/", "handler": "main.index", "notes": []},
        {"method": "POST", "path": "/items/{item_id}", "handler": "main.item", "notes": ["blocking"]},
        {"method": "GET", "path": "/level", "handler": "main.level", "notes": ["inline"]},
        {"method": "GET", "path": "/openapi.json", "handler": "oxbrook", "notes": ["built in"]},
        {"method": "GET", "path": "/docs", "handler": "oxbrook", "notes": ["built in"]},
    ]


def test_the_app_directory_is_first_on_the_path(run: Run, write: Write) -> None:
    write("other/main.py", APP)
    write("main.py", "raise RuntimeError('the wrong main')\n")
    server = run("run", "--app-dir", "other", "--port", "0")
    assert httpx.get(server.url, timeout=DEADLINE).text == "hello"


USAGE = [
    (["run"], "no target given"),
    (["run", "nowhere:app"], "no module named 'nowhere'"),
    (["run", "main:nothing"], "has no attribute 'nothing'; it defines app"),
    (["run", "main:make"], "not an oxbrook.App; if it makes the app, add --factory"),
    (["run", "a:b:c"], "should look like 'module:attribute'"),
    (["run", "main", "--app-dir", "nowhere"], "--app-dir: nowhere is not a directory"),
    (["run", "main", "--port", "80000"], "argument --port: expected a whole number from 0 to 65535"),
    (["run", "main", "--bogus"], "unrecognized arguments: --bogus"),
    (["run", "main", "--work", "1"], "unrecognized arguments: --work 1"),
    (["run", "main", "--tls-cert", "x"], "unrecognized arguments: --tls-cert x"),
    (["run", "main", "--loop", "rloop"], "argument --loop: expected one of auto, asyncio, uvloop"),
    (["run", "main", "--uds-mode", "888"], "argument --uds-mode: expected an octal number from 0 to 777"),
    (["run", "main", "--fd", "0"], "--fd: expected the descriptor of a listening socket"),
    (["run", "main", "--env-file", "nowhere.env"], "env file nowhere.env: No such file or directory"),
    (["run", "main", "--reload-dir", "."], "need --reload"),
    (["routes"], "the following arguments are required: TARGET"),
    (["routes", "nowhere"], "no module named 'nowhere'"),
    (["fly", "main"], "invalid choice: 'fly'"),
]


# Whatever an option is given: none of it may end in a traceback.
EDGES = ["", "x", "nan", "inf", "1e300", "1e10", "-1", str(-(2**64)), str(2**64), "9" * 5000, "0x10"]
# What some take: 0 or less means none, or the least there is.
TAKEN = {
    "-1": {"max_concurrency", "shutdown_grace", *TIMEOUTS},
    str(-(2**64)): {"max_concurrency", "shutdown_grace", *TIMEOUTS},
}


@pytest.mark.parametrize("text", EDGES, ids=lambda text: text[:9])
@pytest.mark.parametrize("flag", NUMBERS, ids=lambda flag: flag.name)
def test_a_value_out_of_range_is_refused_in_one_line_and_what_is_taken_serves(
    flag: Flag, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if flag.name in TAKEN.get(text, ()):
        app.build_server(**{**PLAIN, flag.name: given(f"{flag.option}={text}")[flag.name]})
        return
    with pytest.raises(SystemExit) as end:
        given(f"{flag.option}={text}")
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"oxbrook: error: argument {flag.option}: expected ")
    assert error.count("\n") == 1
    if text:
        with pytest.raises(UsageError, match=flag.variable):
            flag.from_environment({flag.variable: text})


@pytest.mark.parametrize("flag", NUMBERS, ids=lambda flag: flag.name)
def test_code_is_refused_what_the_command_is(flag: Flag) -> None:
    for value in (math.nan, math.inf, 1e300, 2**64, -(10**400), 10**400, "1", True, b"1", [1]):
        if flag.name in TAKEN["-1"] and value == -(10**400):
            continue
        with pytest.raises((TypeError, ValueError), match=rf"^{flag.name} must be "):
            app.build_server(**{**PLAIN, flag.name: value})


def test_a_server_runs_at_both_ends_of_every_range(run: Run, write: Write) -> None:
    write("main.py", APP)
    durations = [f"--{name.replace('_', '-')}" for name in (*TIMEOUTS, "shutdown_grace")]
    sizes = ("--max-body", str(2**63 - 1), "--max-buffered", str(2**63 - 1), "--backlog", str(2**31 - 1))
    longest = [word for option in durations for word in (option, "1000000000")]
    for arguments in (
        [*sizes, *longest, "--max-connections", str(2**24), "--blocking-threads", "65536"],
        [
            "--max-body",
            "0",
            "--max-buffered",
            "0",
            "--backlog",
            "1",
            *[f"{option}=0" for option in durations],
        ],
    ):
        server = run("run", "--port", "0", "--workers", "1", "--queue-timeout", "1000000000", *arguments)
        assert httpx.get(server.url, timeout=DEADLINE).text == "hello"
        assert server.stop() == 0


def test_an_empty_place_is_refused(run: Run, write: Write) -> None:
    write("main.py", APP)
    for option in ("--host", "--uds"):
        command = run("run", option, "")
        assert command.ended() == 2
        assert command.err.text == f"oxbrook: error: argument {option}: expected something, not nothing"


@pytest.mark.parametrize(("arguments", "text"), USAGE)
def test_a_usage_error_is_one_line_and_status_2(
    run: Run, write: Write, arguments: list[str], text: str
) -> None:
    if len(arguments) > 1:
        write("main.py", APP)
    command = run(*arguments)
    assert command.ended() == 2
    (line,) = command.err.lines
    assert line.startswith("oxbrook: error: ")
    assert text in line
    assert command.out.text == ""


@pytest.mark.parametrize("source", ["import nothing_of_that_name", "1 / 0", "def broken(:", "x = App("])
def test_an_app_that_raises_keeps_its_traceback_and_status_1(run: Run, write: Write, source: str) -> None:
    write("main.py", source)
    command = run("run", "main")
    assert command.ended() == 1
    assert "Traceback" in command.err.text
    assert "main.py" in command.err.text


def test_a_port_that_is_taken_is_said_in_one_line(run: Run, write: Write) -> None:
    write("main.py", APP)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = run("run", "--port", str(port))
        assert command.ended() == 2
    (line,) = command.err.lines
    assert line.startswith(f"oxbrook: error: bind 127.0.0.1:{port}")


def test_an_interrupt_while_the_app_is_imported_ends_with_0(run: Run, write: Write) -> None:
    # Short sleeps: a signal that comes just before one is seen when it ends.
    write("main.py", "import time\nprint('importing', flush=True)\nwhile True: time.sleep(0.01)\n")
    command = run("run", "main")
    command.out.wait_for("importing")
    assert command.stop(signal.SIGINT) == 0


VARIABLES: list[tuple[str, str, object]] = [
    ("backlog", "5", 5),
    ("workers", "3", 3),
    ("io_threads", "2", 2),
    ("loop", "asyncio", "asyncio"),
    ("max_concurrency", "-5", 1),
    ("max_connections", "9", 9),
    ("max_body", "0", 0),
    ("max_buffered", "1", 1),
    ("request_timeout", "0.5", 0.5),
    ("queue_timeout", "0.05", 0.05),
    ("header_timeout", "1", 1.0),
    ("keep_alive_timeout", "2", 2.0),
    ("body_timeout", "3", 3.0),
    ("write_timeout", "4", 4.0),
    ("shutdown_grace", "5", 5.0),
    ("blocking_threads", "6", 6),
    ("uds_mode", "600", 0o600),
]


@pytest.mark.parametrize(("name", "text", "value"), VARIABLES)
def test_a_flag_beats_its_variable_which_beats_the_default(name: str, text: str, value: object) -> None:
    variable, option = "OXBROOK_" + name.upper(), "--" + name.replace("_", "-")
    assert server_options(given(), {}) == {}
    assert server_options(given(), {variable: ""}) == {}
    assert server_options(given(), {variable: text}) == {name: value}
    assert server_options(given(f"{option}={text}"), {}) == {name: value}
    other = "uvloop" if name == "loop" else "7"
    typed = server_options(given(f"{option}={text}"), {variable: other})
    assert typed == {name: value}


UNREADABLE = [
    ("OXBROOK_WORKERS", "s3cret"),
    ("OXBROOK_WORKERS", "-1"),
    ("OXBROOK_REQUEST_TIMEOUT", "s3cret"),
    ("OXBROOK_REQUEST_TIMEOUT", "inf"),
    ("OXBROOK_QUEUE_TIMEOUT", "0"),
    ("OXBROOK_LOOP", "s3cret"),
    ("OXBROOK_UDS_MODE", "1000"),
]


@pytest.mark.parametrize(("variable", "text"), UNREADABLE)
def test_a_variable_that_cannot_be_read_is_named_and_its_value_is_not_shown(variable: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        server_options(given(), {variable: text})
    assert str(caught.value).startswith(f"{variable}: expected")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, True) for text in ("1", "true", "YES", "On")),
        *((text, False) for text in ("0", "False", "no", "OFF")),
    ],
)
def test_a_truth_value_is_read_in_any_case(text: str, value: bool) -> None:
    assert value_of(_flags.RELOAD, given(), {"OXBROOK_RELOAD": text}) is value
    with pytest.raises(UsageError, match="OXBROOK_RELOAD"):
        value_of(_flags.RELOAD, given(), {"OXBROOK_RELOAD": "maybe"})


PLACES: list[tuple[list[str], dict[str, str], dict[str, object]]] = [
    ([], {}, {}),
    ([], {"PORT": "81"}, {"port": 81}),
    ([], {"PORT": "81", "OXBROOK_PORT": "82"}, {"port": 82}),
    ([], {"PORT": "81", "OXBROOK_PORT": ""}, {"port": 81}),
    (["--port", "83"], {"PORT": "x", "OXBROOK_PORT": "x"}, {"port": 83}),
    (["--port", "83"], {"OXBROOK_HOST": "h"}, {"port": 83, "host": "h"}),
    (["--host", "h"], {"PORT": "81"}, {"port": 81, "host": "h"}),
    (["--host", "h"], {"OXBROOK_UDS": "/s"}, {"host": "h"}),
    (["--uds", "/s"], {"PORT": "81", "OXBROOK_HOST": "h", "OXBROOK_FD": "x"}, {"uds": "/s"}),
    ([], {"PORT": "81", "OXBROOK_HOST": "h", "OXBROOK_UDS": "/s"}, {"uds": "/s"}),
]


@pytest.mark.parametrize(("arguments", "environ", "place"), PLACES)
def test_the_place_to_listen_is_the_most_deliberate_one(
    arguments: list[str], environ: dict[str, str], place: dict[str, object]
) -> None:
    assert place_options(given(*arguments), dict(environ)) == place


REFUSED_PLACES: list[tuple[list[str], dict[str, str], str]] = [
    (["--fd", "3", "--uds", "/s"], {}, "--fd and --uds"),
    (["--fd", "3", "--port", "1"], {}, "--fd cannot stand beside"),
    (["--uds", "/s", "--host", "h"], {}, "--uds cannot stand beside"),
    ([], {"OXBROOK_FD": "3", "OXBROOK_UDS": "/s"}, "OXBROOK_FD and OXBROOK_UDS"),
    ([], {"PORT": "x"}, "PORT: expected"),
    ([], {"OXBROOK_PORT": "x", "PORT": "81"}, "OXBROOK_PORT: expected"),
]


@pytest.mark.parametrize(("arguments", "environ", "text"), REFUSED_PLACES)
def test_two_places_and_unreadable_ones_are_refused(
    arguments: list[str], environ: dict[str, str], text: str
) -> None:
    with pytest.raises(UsageError) as caught:
        place_options(given(*arguments), environ)
    assert text in str(caught.value)


def test_descriptors_of_a_service_manager_count_only_for_this_process_and_an_unnamed_place() -> None:
    mine = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"}
    for named in ({"OXBROOK_HOST": "h"}, {"OXBROOK_PORT": "1"}, {"OXBROOK_UDS": "/s"}):
        environ = {**mine, **named}
        assert "fd" not in place_options(given(), environ)
        assert environ == named
    environ = {**mine, "PORT": "81"}
    with pytest.raises(UsageError, match="LISTEN_FDS: expected exactly 1"):
        place_options(given(), environ)
    assert environ == {"PORT": "81"}
    others = {"LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDS": "1"}
    assert place_options(given(), others) == {}


def test_a_listening_descriptor_is_served(run: Run, write: Write) -> None:
    write("main.py", APP)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.fileno()
        server = run("run", "--fd", str(number), pass_fds=[number])
        assert server.url == f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert httpx.get(server.url, timeout=DEADLINE).text == "hello"
        assert server.stop() == 0


def test_the_descriptor_of_a_service_manager_is_served_and_its_variables_are_taken_out(
    write: Write, tmp_path: Path
) -> None:
    write("main.py", APP + "import os\nprint(sorted(n for n in os.environ if n.startswith('LISTEN_')))\n")
    # A service manager: the descriptor is 3, and LISTEN_PID is the process that exec makes of this one.
    write(
        "manager.py",
        "import os, sys\n"
        "os.dup2(int(sys.argv[1]), 3)\n"
        "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'oxbrook', 'run', 'main'])\n",
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        number = listener.fileno()
        with Command([str(number)], tmp_path, pass_fds=[number], module="manager") as server:
            assert server.url == f"http://127.0.0.1:{listener.getsockname()[1]}"
            assert httpx.get(server.url, timeout=DEADLINE).text == "hello"
            assert server.out.lines[0] == "[]"


def test_r32_plain_the_rights_of_a_stale_socket_file_are_kept(run: Run, write: Write, tmp_path: Path) -> None:
    write("main.py", APP)
    path = tmp_path / "oxb.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    path.chmod(0o760)
    server = run("run", "--uds", str(path))
    assert server.url == f"unix:{path}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o760
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), timeout=DEADLINE) as client:
        assert client.get("http://x/").text == "hello"
    second = run("run", "--uds", str(path))
    assert second.ended() == 2
    assert second.err.text.startswith("oxbrook: error: bind ")
    assert server.stop() == 0
    assert not path.exists()


@pytest.mark.parametrize(("arguments", "mode"), [([], 0o660), (["--uds-mode", "600"], 0o600)])
def test_a_new_socket_file_has_the_rights_asked_for_and_is_removed(
    run: Run, write: Write, tmp_path: Path, arguments: list[str], mode: int
) -> None:
    write("main.py", APP)
    path = tmp_path / "oxb.sock"
    server = run("run", "--uds", str(path), *arguments)
    assert server.url
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert server.stop() == 0
    assert not path.exists()


def test_a_file_that_is_no_socket_is_left_alone(run: Run, write: Write) -> None:
    write("main.py", APP)
    path = write("precious", "data")
    command = run("run", "--uds", str(path))
    assert command.ended() == 2
    assert command.err.text.startswith("oxbrook: error: bind ")
    assert path.read_text() == "data"


def test_the_env_file_gives_variables_to_the_command_and_the_app(run: Run, write: Write) -> None:
    write("main.py", APP + "import os\nprint(os.environ['GREETING'], os.environ['KEPT'])\n")
    write("dev.env", "OXBROOK_PORT=0\nOXBROOK_MAX_CONCURRENCY=5\nexport GREETING='hi'\nKEPT=file\n")
    server = run("run", "--env-file", "dev.env", environ={"KEPT": "before"})
    assert server.url
    assert server.out.lines[0] == "hi before"
    assert ", max 5 concurrent/worker, " in server.out.lines[1]


@pytest.mark.parametrize(
    ("arguments", "environ", "level"),
    [([], {}, 20), (["--log-level", "debug"], {}, 10), ([], {"OXBROOK_LOG_LEVEL": "error"}, 40)],
)
def test_the_log_level_is_that_of_the_oxbrook_logger(
    run: Run, write: Write, arguments: list[str], environ: dict[str, str], level: int
) -> None:
    write("main.py", APP)
    server = run("run", "--port", "0", *arguments, environ=environ)
    answer = httpx.get(f"{server.url}/level", timeout=DEADLINE).json()
    assert answer == [level, "%(levelname)s %(name)s: %(message)s"]


def test_a_root_handler_of_the_app_is_kept(run: Run, write: Write) -> None:
    write("main.py", APP + "logging.basicConfig(format='mine %(message)s')\n")
    server = run("run", "--port", "0")
    assert httpx.get(f"{server.url}/level", timeout=DEADLINE).json()[1] == "mine %(message)s"


def test_app_run_reads_no_variable(write: Write, tmp_path: Path) -> None:
    write("script.py", APP.replace("def make", "app.run(port=0)\ndef make"))
    with Command([], tmp_path, {"OXBROOK_MAX_CONCURRENCY": "3", "PORT": "1"}, module="script") as server:
        assert httpx.get(server.url, timeout=DEADLINE).text == "hello"
        assert ", max 1024 concurrent/worker, " in server.out.lines[0]
        assert server.stop(signal.SIGINT) == 0
