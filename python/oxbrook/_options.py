"""What `run` and `build_server` accept, checked once before anything is opened.

Invariant: a `ServerOptions` that exists is valid; the extension only converts it.
"""

from __future__ import annotations

import math
import os
import socket
from dataclasses import dataclass
from typing import Final, TypedDict

LOOPS: Final = ("auto", "asyncio", "uvloop")
MAX_MESSAGE: Final = 16_777_216


class ServerKeywords(TypedDict, total=False):
    """The options of `run` beside the place, as keywords that may be left out."""

    workers: int | None
    max_concurrency: int
    max_body: int
    request_timeout: float
    shutdown_grace: float
    max_connections: int
    max_message: int
    announce: bool
    blocking_threads: int | None
    uds: str | os.PathLike[str] | None
    uds_mode: int
    fd: int | None
    backlog: int
    io_threads: int | None
    max_buffered: int
    queue_timeout: float | None
    header_timeout: float
    keep_alive_timeout: float
    body_timeout: float
    write_timeout: float
    loop: str


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Options of one server, api.md 1.2; durations in seconds, sizes in bytes.

    Raises: ValueError or TypeError, naming the option.
    """

    host: str
    port: int
    workers: int | None
    max_concurrency: int
    max_body: int
    request_timeout: float
    shutdown_grace: float
    max_connections: int
    max_message: int
    announce: bool
    blocking_threads: int | None
    uds: str | None
    uds_mode: int
    fd: int | None
    backlog: int
    io_threads: int | None
    max_buffered: int
    queue_timeout: float | None
    header_timeout: float
    keep_alive_timeout: float
    body_timeout: float
    write_timeout: float
    loop: str

    def __post_init__(self) -> None:
        if not isinstance(self.host, str):
            raise TypeError(f"host must be a str, not {type(self.host).__name__}")
        check_int("port", self.port, 0, 65535)
        if self.uds is not None and (type(self.uds) is not str or not self.uds or "\0" in self.uds):
            raise ValueError("uds must be the path of a socket file")
        check_int("uds_mode", self.uds_mode, 0, 0o777, "from 0 to 0o777")
        if self.fd is not None:
            if self.uds is not None:
                raise ValueError("fd and uds cannot be given together")
            check_listening("fd", self.fd)
        check_int("backlog", self.backlog, 1)
        if self.workers is not None:
            check_int("workers", self.workers, 0)
        if self.io_threads is not None:
            check_int("io_threads", self.io_threads, 1)
        if self.blocking_threads is not None:
            check_int("blocking_threads", self.blocking_threads, 1)
        check_int("max_connections", self.max_connections, 1)
        check_int("max_body", self.max_body, 0)
        check_int("max_buffered", self.max_buffered, 0)
        if type(self.max_concurrency) is not int:
            raise TypeError(f"max_concurrency must be an int, not {type(self.max_concurrency).__name__}")
        object.__setattr__(self, "max_concurrency", max(1, self.max_concurrency))
        if self.max_message != MAX_MESSAGE:
            raise ValueError(f"max_message: sockets are not built yet, only {MAX_MESSAGE} is accepted")
        durations = (
            "request_timeout",
            "shutdown_grace",
            "header_timeout",
            "keep_alive_timeout",
            "body_timeout",
            "write_timeout",
        )
        for name in durations:
            check_duration(name, getattr(self, name))
        object.__setattr__(self, "shutdown_grace", max(0.0, self.shutdown_grace))
        if self.queue_timeout is not None:
            check_duration("queue_timeout", self.queue_timeout)
            if self.queue_timeout <= 0:
                raise ValueError("queue_timeout must be None or above 0")
        if self.loop not in LOOPS:
            raise ValueError(f"loop must be one of {', '.join(map(repr, LOOPS))}")


def check_int(name: str, value: object, low: int, high: int | None = None, wording: str = "") -> None:
    """Refuse what is not an `int` within the bounds; `bool` is no number of anything."""
    if type(value) is int and low <= value and (high is None or value <= high):
        return
    if not wording:
        wording = f"of at least {low}" if high is None else f"from {low} to {high}"
    raise ValueError(f"{name} must be an int {wording}")


def check_duration(name: str, value: object) -> None:
    """Refuse what is no number of seconds; infinity is none either (0 means no limit)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number of seconds")


def check_listening(name: str, descriptor: object) -> None:
    """Refuse a descriptor that is not a listening stream socket; it is left as it was.

    Raises: ValueError.
    """
    if type(descriptor) is int and descriptor >= 0:
        try:
            # A copy: closing the Python object must not close the caller's descriptor.
            with socket.socket(fileno=os.dup(descriptor)) as found:
                listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
                if listens and found.type == socket.SOCK_STREAM:
                    return
        except OSError:
            pass
    raise ValueError(f"{name} must be the descriptor of a listening socket")


def loop_name(loop: str, is_gil_enabled: bool) -> str:
    """Return the implementation that `loop` stands for here: `asyncio` or `uvloop`.

    Raises: RuntimeError if `uvloop` was asked for and is not installed.
    """
    if loop == "asyncio" or (loop == "auto" and not is_gil_enabled):
        return "asyncio"
    from importlib.util import find_spec

    if find_spec("uvloop") is not None:
        return "uvloop"
    if loop == "auto":
        return "asyncio"
    raise RuntimeError("loop 'uvloop' is not installed: pip install uvloop")
