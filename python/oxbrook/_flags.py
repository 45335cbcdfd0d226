"""The flags of `oxbrook run` and the variables behind them.

A flag beats `OXBROOK_<NAME>`, which beats the default; an empty variable counts as unset.

Invariant: an error about a variable names the variable and never holds its value.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Final

from oxbrook._options import BOUNDS, LOOPS, MAX_SECONDS, check_listening, is_duration

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
TRUE: Final = ("1", "true", "yes", "on")
FALSE: Final = ("0", "false", "no", "off")
# The first descriptor a service manager hands over, sd_listen_fds(3).
FIRST_LISTEN_FD: Final = 3


class UsageError(Exception):
    """Something on the command line or in a variable is wrong; the text is for the person who typed it."""


@dataclass(frozen=True)
class Flag:
    """One option of `run`: `max_body` is `--max-body` and `OXBROOK_MAX_BODY`.

    `read` makes a value of text; it raises ValueError with what was expected, without the text it was given.
    """

    name: str
    read: Callable[[str], object]
    help: str
    metavar: str | None = None
    also: str | None = None

    @property
    def option(self) -> str:
        """The flag as typed."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The variable that stands in for the flag."""
        return "OXBROOK_" + self.name.upper()

    def from_environment(self, environ: Mapping[str, str]) -> object | None:
        """Return the variable's value, or None where it is unset or empty.

        Raises: UsageError.
        """
        for variable in (self.variable, self.also):
            text = environ.get(variable, "") if variable else ""
            if text:
                try:
                    return self.read(text)
                except ValueError as error:
                    raise UsageError(f"{variable}: {error}") from None
        return None

    def from_argument(self, text: str) -> object:
        """Return the value of a flag's argument, for argparse."""
        try:
            return self.read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None


def whole(name: str) -> Callable[[str], int]:
    """Return a reader of whole numbers within the bounds of an option."""
    low, high = BOUNDS[name]

    def read(text: str) -> int:
        number = any_whole(text)
        if not low <= number <= high:
            raise ValueError(f"expected a whole number from {low} to {high}")
        return number

    return read


def whole_at_most(name: str) -> Callable[[str], int]:
    """Return a reader for an option that takes what is too small as its least (api.md 1.2)."""
    low, high = BOUNDS[name]

    def read(text: str) -> int:
        number = any_whole(text)
        if number > high:
            raise ValueError(f"expected a whole number up to {high}")
        return max(low, number)

    return read


def any_whole(text: str) -> int:
    """Read a whole number of any size."""
    try:
        return int(text)
    except ValueError:
        raise ValueError("expected a whole number") from None


def name(text: str) -> str:
    """Read what must not be empty."""
    if not text:
        raise ValueError("expected something, not nothing")
    return text


def seconds(text: str) -> float:
    """Read a number of seconds."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not is_duration(number):
        raise ValueError(f"expected a number of seconds up to {MAX_SECONDS}")
    # 0 or less stands for none.
    return max(0.0, number)


def seconds_above_zero(text: str) -> float:
    """Read a number of seconds that is more than none."""
    number = seconds(text)
    if number <= 0:
        raise ValueError(f"expected a number of seconds above 0, up to {MAX_SECONDS}")
    return number


def mode(text: str) -> int:
    """Read the rights of a file, octal as chmod(1) takes them."""
    try:
        number = int(text, 8)
    except ValueError:
        number = -1
    if not 0 <= number <= 0o777:
        raise ValueError("expected an octal number from 0 to 777")
    return number


def one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    """Return a reader of a few words."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return text

    return read


def boolean(text: str) -> bool:
    """Read a truth value, any case."""
    lower = text.lower()
    if lower not in TRUE and lower not in FALSE:
        raise ValueError(f"expected one of {' '.join(TRUE)} or {' '.join(FALSE)}")
    return lower in TRUE


PLACES: Final = (
    Flag("host", name, "address or name to listen on (127.0.0.1)"),
    Flag("port", whole("port"), "port to listen on, 0 for a free one (8000)", "N", also="PORT"),
    Flag("uds", name, "Unix socket to listen on, in place of host and port", "PATH"),
    Flag("fd", whole("fd"), "descriptor of a socket that already listens", "N"),
)
SERVER: Final = (
    Flag("uds_mode", mode, "rights of a socket file made new (660)", "OCTAL"),
    Flag("backlog", whole("backlog"), "connections the system may keep waiting (2048)", "N"),
    Flag("workers", whole("workers"), "worker loops (detected)", "N"),
    Flag("io_threads", whole("io_threads"), "I/O threads (by CPUs)", "N"),
    Flag("loop", one_of(LOOPS), "event loop implementation: auto, asyncio or uvloop (auto)", "NAME"),
    Flag("max_concurrency", whole_at_most("max_concurrency"), "requests one loop holds (1024)", "N"),
    Flag("max_connections", whole("max_connections"), "connections held (2048)", "N"),
    Flag("max_body", whole("max_body"), "bytes in a request body (16777216)", "BYTES"),
    Flag(
        "max_buffered", whole("max_buffered"), "bytes of collected bodies in the process (268435456)", "BYTES"
    ),
    Flag("request_timeout", seconds, "seconds to a handler's first reply, 0 for no limit (30)", "S"),
    Flag("queue_timeout", seconds_above_zero, "seconds a queued request may wait (none)", "S"),
    Flag("header_timeout", seconds, "seconds for a request head (15)", "S"),
    Flag("keep_alive_timeout", seconds, "seconds a connection may wait for its next request (75)", "S"),
    Flag("body_timeout", seconds, "seconds without a byte of a body (30)", "S"),
    Flag("write_timeout", seconds, "seconds in which a client takes no byte (30)", "S"),
    Flag("shutdown_grace", seconds, "seconds a stop waits for requests (10; 1 under --reload)", "S"),
    Flag(
        "blocking_threads", whole("blocking_threads"), "threads of the blocking pool (min(32, CPUs + 4))", "N"
    ),
)
LOG_LEVEL: Final = Flag("log_level", one_of(LOG_LEVELS), "debug, info, warning or error (info)", "LEVEL")
ACCESS_LOG: Final = Flag("access_log", boolean, "log a line for every request")
RELOAD: Final = Flag("reload", boolean, "restart the server when a watched file changes")


def server_options(given: Mapping[str, object], environ: Mapping[str, str]) -> dict[str, object]:
    """Return the options of `run` that a flag or a variable gives; the place to listen is apart."""
    options = {}
    for flag in SERVER:
        value = value_of(flag, given, environ)
        if value is not None:
            options[flag.name] = value
    return options


def value_of(flag: Flag, given: Mapping[str, object], environ: Mapping[str, str]) -> object | None:
    """Return the value of one flag: as typed, else its variable's, else None."""
    value = given.get(flag.name)
    return flag.from_environment(environ) if value is None else value


def place_options(given: Mapping[str, object], environ: MutableMapping[str, str]) -> dict[str, object]:
    """Return where to listen: `fd`, or `uds`, or what there is of `host` and `port`.

    What a service manager handed over is taken out of `environ`.

    Raises: UsageError.
    """
    typed = {flag.name: given[flag.name] for flag in PLACES if given.get(flag.name) is not None}
    if "fd" in typed and "uds" in typed:
        raise UsageError("--fd and --uds cannot be given together")
    for name in ("fd", "uds"):
        if name in typed and len(typed) > 1:
            raise UsageError(f"--{name} cannot stand beside --host or --port")
    handed_over = take_listen_fds(environ)
    if "fd" in typed or "uds" in typed:
        return checked(typed, "--fd")
    named = {}
    for flag in PLACES:
        if flag.name not in typed and environ.get(flag.variable):
            named[flag.name] = flag.from_environment(environ)
    if not typed:
        if "fd" in named and "uds" in named:
            raise UsageError("OXBROOK_FD and OXBROOK_UDS cannot be given together")
        for name in ("fd", "uds"):
            if name in named:
                return checked({name: named[name]}, "OXBROOK_FD")
        if not named and handed_over is not None:
            if handed_over != "1":
                raise UsageError("LISTEN_FDS: expected exactly 1 descriptor")
            return checked({"fd": FIRST_LISTEN_FD}, "LISTEN_FDS")
    options = {name: value for name, value in {**named, **typed}.items() if name in ("host", "port")}
    if "port" not in options:
        port = PLACES[1].from_environment(environ)
        if port is not None:
            options["port"] = port
    return options


def take_listen_fds(environ: MutableMapping[str, str]) -> str | None:
    """Take the two variables of sd_listen_fds(3) out; return the count they give to this process, if any."""
    if environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    environ.pop("LISTEN_PID")
    return environ.pop("LISTEN_FDS", None)


def checked(place: dict[str, object], source: str) -> dict[str, object]:
    """Return the place, if its descriptor is a socket that listens."""
    if "fd" in place:
        try:
            check_listening("descriptor", place["fd"])
        except ValueError:
            raise UsageError(f"{source}: expected the descriptor of a listening socket") from None
    return place
