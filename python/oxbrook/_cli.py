"""The command `oxbrook` (also `oxb` and `python -m oxbrook`), api.md 1.6.

Invariant: a mistake of the person who types is `oxbrook: error: ...` and status 2, without a traceback; what
the app raises keeps its traceback and ends with status 1.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, Final, NoReturn

from oxbrook import _envfile, _flags, _target
from oxbrook._flags import UsageError
from oxbrook._settings_error import SettingsError

USAGE: Final = 2
# Set by the supervisor of `--reload` for the server it starts.
RELOAD_CHILD: Final = "OXBROOK_RELOAD_CHILD"
RELOAD_FD: Final = "OXBROOK_RELOAD_FD"
RELOAD_GRACE: Final = 1.0


class Stopped(BaseException):
    """A stop signal came before there was a server.

    No KeyboardInterrupt: where one passes through `exec`, as at every import that makes classes from text,
    CPython ends the process by SIGINT whoever catches it afterwards.
    """

    # An import may swallow what is raised in it (a finalizer does); it is looked at once more after it.
    is_due = False


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors read as those of the rest of the command."""

    def error(self, message: str) -> NoReturn:
        """End with the usage status."""
        self.exit(USAGE, f"oxbrook: error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; `arguments` default to those of the process."""
    parser = build_parser()
    given = vars(parser.parse_args(arguments))
    command = given.pop("command")
    try:
        if command == "run":
            return run(given)
        if command == "routes":
            return routes(given)
        if command == "openapi":
            return openapi(given)
        if command == "bench":
            return bench(given)
        if command == "settings":
            return settings(given)
        if command == "new":
            return new(given)
    except (UsageError, _target.TargetError, _envfile.EnvFileError, SettingsError) as error:
        print(f"oxbrook: error: {error}", file=sys.stderr)
        return USAGE
    except (Stopped, KeyboardInterrupt):
        on_stop(leave)
        return 0
    if given["version"]:
        print(version_line())
        return 0
    parser.print_help()
    return USAGE


def build_parser() -> Parser:
    """Return the parser of all subcommands."""
    parser = Parser(prog="oxbrook", description="Serve Python web apps from a Rust core.", allow_abbrev=False)
    parser.add_argument("--version", action="store_true", help="print versions and the state of the GIL")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    target = "module:attribute of the app; the attribute is app where none is given"

    run = commands.add_parser("run", help="serve an app", description="Serve an app.", allow_abbrev=False)
    run.add_argument("target", nargs="?", metavar="TARGET", help=target)
    add_finding(run)
    for flag in (*_flags.PLACES, *_flags.SERVER, _flags.LOG_LEVEL):
        run.add_argument(flag.option, type=flag.from_argument, metavar=flag.metavar, help=flag.help)
    run.add_argument("--access-log", action="store_const", const=True, help=_flags.ACCESS_LOG.help)
    run.add_argument("--reload", action="store_const", const=True, help=_flags.RELOAD.help)
    run.add_argument(
        "--reload-dir",
        action="append",
        metavar="DIR",
        help="directory to watch (the app directory); repeatable",
    )
    run.add_argument(
        "--reload-include",
        action="append",
        metavar="GLOB",
        help="files to watch beside *.py; repeatable",
    )
    run.add_argument("--env-file", metavar="FILE", help="variables for the process, NAME=value a line")

    routes = commands.add_parser(
        "routes",
        help="list the routes of an app",
        description="List the routes of an app.",
        allow_abbrev=False,
    )
    routes.add_argument("target", metavar="TARGET", help=target)
    add_finding(routes)
    routes.add_argument("--json", action="store_true", help="print a JSON list")

    openapi = commands.add_parser(
        "openapi",
        help="print the OpenAPI document of an app",
        description="Print the OpenAPI document of an app.",
        allow_abbrev=False,
    )
    openapi.add_argument("target", metavar="TARGET", help=target)
    add_finding(openapi)
    openapi.add_argument("-o", dest="output", metavar="FILE", help="write it to a file")
    settings = commands.add_parser(
        "settings",
        help="list the variables an app reads",
        description="List the variables of the Settings classes of an app, and what is wrong with them.",
        allow_abbrev=False,
    )
    settings.add_argument("target", metavar="TARGET", help="module of the app, or module:attribute")
    settings.add_argument(
        "--app-dir", default=".", metavar="DIR", help="put first on sys.path (the working directory)"
    )
    settings.add_argument("--json", action="store_true", help="print a JSON list")

    new = commands.add_parser(
        "new", help="begin a project", description="Begin a project.", allow_abbrev=False
    )
    new.add_argument("directory", metavar="DIRECTORY", help="is made; may be there when it is empty")
    new.add_argument("--name", metavar="NAME", help="of the project (that of the directory)")
    add_bench(
        commands.add_parser("bench", help="measure an app on several engines", allow_abbrev=False), target
    )
    return parser


def add_bench(parser: argparse.ArgumentParser, target: str) -> None:
    """Add the flags of `bench`."""
    parser.description = "Measure an app on several engines and event loops under the same load."
    parser.add_argument("target", metavar="TARGET", help=target)
    add_finding(parser)
    parser.add_argument("--path", default="/", metavar="PATH", help="what is asked for (/)")
    parser.add_argument(
        "--path-param", action="append", metavar="NAME=VALUE", help="value of {NAME} in the path; repeatable"
    )
    parser.add_argument("--method", metavar="METHOD", help="GET, or POST with a payload")
    parser.add_argument("--payload", metavar="TEXT", help="the body; JSON unless a header says otherwise")
    parser.add_argument("--header", action="append", metavar="NAME:VALUE", help="repeatable")
    parser.add_argument(
        "--engines",
        default="oxbrook,granian,uvicorn",
        metavar="LIST",
        help="(oxbrook,granian,uvicorn)",
    )
    parser.add_argument("--loops", default="asyncio", metavar="LIST", help="asyncio,uvloop (asyncio)")
    parser.add_argument(
        "-c", "--connections", type=int, default=64, metavar="N", help="at the same time (64)"
    )
    parser.add_argument(
        "-d", "--duration", type=float, default=5.0, metavar="SECONDS", help="of each round, after 1 s (5)"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="interleaved; medians are shown (3)"
    )


def add_finding(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say how the target is found."""
    parser.add_argument(
        "--app-dir", default=".", metavar="DIR", help="put first on sys.path (the working directory)"
    )
    parser.add_argument("--factory", action="store_true", help="call the attribute, its result is the app")


def on_stop(then: Callable[[int, FrameType | None], None]) -> None:
    """Have a stop signal that comes while no server takes it end the command as a stop does: by status 0."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, then)


def give_up(_number: int, _frame: FrameType | None) -> NoReturn:
    """Stop before there is a server: `main` returns 0 for it."""
    Stopped.is_due = True
    raise Stopped


def leave(_number: int, _frame: FrameType | None) -> NoReturn:
    """Stop after the server has ended: nothing of the app is waited for any more."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError, RuntimeError):
            stream.flush()
    os._exit(0)


def run(given: dict[str, Any]) -> int:
    """Serve the target, or supervise a child that does."""
    on_stop(give_up)
    original = dict(os.environ)
    is_child = os.environ.get(RELOAD_CHILD) == "1"
    environ: MutableMapping[str, str] = os.environ
    if given["env_file"] is not None:
        _envfile.load(given["env_file"], environ)
    options = _flags.server_options(given, environ)
    log_level = str(_flags.value_of(_flags.LOG_LEVEL, given, environ) or "info")
    is_reloading = bool(_flags.value_of(_flags.RELOAD, given, environ))
    if is_reloading:
        options.setdefault("shutdown_grace", RELOAD_GRACE)
    elif given["reload_dir"] or given["reload_include"]:
        raise UsageError("--reload-dir and --reload-include need --reload")
    if is_child:
        options["fd"] = inherited(environ)
    else:
        options |= _flags.place_options(given, environ)
    if options.get("loop") == "uvloop":
        check_uvloop()
    if is_reloading and not is_child:
        return supervise(given, options, original)
    access_log = _flags.value_of(_flags.ACCESS_LOG, given, environ)
    return serve(given, options, log_level, access_log)


def serve(given: dict[str, Any], options: dict[str, Any], log_level: str, access_log: object | None) -> int:
    """Import the target and serve it until a stop signal."""
    from oxbrook import _gil

    _target.prefer(app_dir(given))
    with _gil.watching():
        app = _target.load(given["target"], given["factory"])
        if options.get("loop") == "uvloop":
            import uvloop  # noqa: F401 (so that what it does to the GIL is seen)
    if Stopped.is_due:
        raise Stopped
    set_log_level(log_level)
    if access_log is not None:
        app.access_log = bool(access_log)
    try:
        app.run(**options)
    except RuntimeError as error:
        # Where it cannot listen is the typist's to mend; what the app raises keeps its traceback.
        if str(error).startswith("bind "):
            raise UsageError(str(error)) from None
        raise
    on_stop(leave)
    return 0


def supervise(given: dict[str, Any], options: dict[str, Any], environ: dict[str, str]) -> int:
    """Run the server as a child that is started again when a watched file changes."""
    from oxbrook import _listen, _reload

    roots = []
    for directory in given["reload_dir"] or [app_dir(given)]:
        if not os.path.isdir(directory):
            raise UsageError(f"--reload-dir: {directory} is not a directory")
        roots.append(os.path.abspath(directory))
    patterns = ["*.py", *(given["reload_include"] or ())]
    if given["env_file"] is not None:
        patterns.append(os.path.basename(given["env_file"]))
    for name in ("LISTEN_PID", "LISTEN_FDS"):
        environ.pop(name, None)
    try:
        with _listen.listening(options) as descriptor:
            environ |= {RELOAD_CHILD: "1", RELOAD_FD: str(descriptor)}
            # The same command once more, interpreter flags included.
            command = [sys.executable, *sys.orig_argv[1:]]
            child = _reload.Child(command, environ, descriptor, options["shutdown_grace"])
            return _reload.Supervisor(child, roots, patterns).run()
    except _listen.BindError as error:
        raise UsageError(str(error)) from None


def routes(given: dict[str, Any]) -> int:
    """Print the routes of the target."""
    _target.prefer(app_dir(given))
    app = _target.load(given["target"], given["factory"])
    rows = []
    for route in app._served(has_parts=False):
        notes = [note for note in ("blocking", "inline") if getattr(route, note) and not route.is_built_in]
        notes += ["streams body"] if route.binding.is_streamed else []
        notes += ["form"] if route.binding.is_form else []
        notes += ["built in"] if route.is_built_in else []
        rows.append((route.method, route.path, route.name, notes))
    if given["json"]:
        import json

        names = ("method", "path", "handler", "notes")
        print(json.dumps([dict(zip(names, row, strict=True)) for row in rows], ensure_ascii=False, indent=2))
        return 0
    table = [("METHOD", "PATH", "HANDLER", "NOTES"), *((*row[:3], ", ".join(row[3])) for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(3)]
    for line in table:
        padded = [text.ljust(width) for text, width in zip(line, widths, strict=False)]
        print("  ".join([*padded, line[3]]).rstrip())
    return 0


def openapi(given: dict[str, Any]) -> int:
    """Print the OpenAPI document of the target, or write it to a file."""
    import json

    _target.prefer(app_dir(given))
    app = _target.load(given["target"], given["factory"])
    text = json.dumps(app.openapi(), ensure_ascii=False, indent=2) + "\n"
    if given["output"] is None:
        sys.stdout.write(text)
        return 0
    try:
        with open(given["output"], "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"-o {given['output']}: {error.strerror}") from None
    return 0


def bench(given: dict[str, Any]) -> int:
    """Measure the target."""
    from oxbrook import _bench

    on_stop(give_up)
    return _bench.run(given, app_dir(given))


def settings(given: dict[str, Any]) -> int:
    """Print the variables the target reads."""
    from oxbrook import _settings_list

    _target.prefer(app_dir(given))
    _settings_list.print_settings(given["target"], given["json"])
    return 0


def new(given: dict[str, Any]) -> int:
    """Write a new project."""
    from oxbrook import _scaffold

    try:
        name, count = _scaffold.create(given["directory"], given["name"])
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from None
    print(_scaffold.created(name, given["directory"], count))
    return 0


def version_line() -> str:
    """Return what `--version` prints."""
    import platform

    from oxbrook._version import version
    from oxbrook._workers import gil_enabled

    kind = "GIL" if gil_enabled() else "free-threaded"
    return f"oxbrook {version()} (Python {platform.python_version()}, {kind})"


def app_dir(given: dict[str, Any]) -> str:
    """Return the app's directory as an absolute path."""
    directory: str = os.path.abspath(given["app_dir"])
    if not os.path.isdir(directory):
        raise UsageError(f"--app-dir: {given['app_dir']} is not a directory")
    return directory


def inherited(environ: MutableMapping[str, str]) -> int:
    """Return the descriptor a supervisor handed over; no process started from here inherits it."""
    text = environ.pop(RELOAD_FD, "")
    if not text.isdecimal():
        raise UsageError(f"{RELOAD_CHILD} is set by the supervisor of --reload alone")
    os.set_inheritable(int(text), False)
    return int(text)


def check_uvloop() -> None:
    """Refuse `--loop uvloop` where it is not installed."""
    from importlib.util import find_spec

    if find_spec("uvloop") is None:
        raise UsageError("--loop uvloop: uvloop is not installed")


def set_log_level(level: str) -> None:
    """Set the level of the `oxbrook` logger, and give a root logger without a handler one that prints."""
    import logging

    logging.getLogger("oxbrook").setLevel(level.upper())
    if not logging.getLogger().handlers:
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
