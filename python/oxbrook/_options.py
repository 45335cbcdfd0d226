"""What `run` and `build_server` accept, checked once before anything is opened.

Invariant: a `ServerOptions` that exists is valid; the extension only converts it.
"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypedDict

LOOPS: Final = ("auto", "asyncio", "uvloop")
MAX_MESSAGE: Final = 16_777_216
# What an int option may be, both ends included. The upper ends are beyond any use, and within what the engine
# and the system count with.
BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "port": (0, 65535),
    "uds_mode": (0, 0o777),
    "fd": (0, 2**31 - 1),
    "backlog": (1, 2**31 - 1),
    "workers": (0, 1024),
    "io_threads": (1, 1024),
    "blocking_threads": (1, 65536),
    "max_concurrency": (1, 2**24),
    "max_connections": (1, 2**24),
    "max_body": (0, 2**63 - 1),
    "max_buffered": (0, 2**63 - 1),
}
# Of these, `None` stands for a default or for none.
OPTIONAL: Final = frozenset({"fd", "workers", "io_threads", "blocking_threads"})
# The longest duration, in seconds: some thirty years.
MAX_SECONDS: Final = 1_000_000_000


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
        if self.uds is not None and (type(self.uds) is not str or not self.uds or "\0" in self.uds):
            raise ValueError("uds must be the path of a socket file")
        if self.fd is not None:
            if self.uds is not None:
                raise ValueError("fd and uds cannot be given together")
            check_listening("fd", self.fd)
        if type(self.max_concurrency) is not int:
            raise TypeError(f"max_concurrency must be an int, not {type(self.max_concurrency).__name__}")
        object.__setattr__(self, "max_concurrency", max(1, self.max_concurrency))
        for name in BOUNDS:
            value = getattr(self, name)
            if value is not None or name not in OPTIONAL:
                check_int(name, value)
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


def check_int(name: str, value: object) -> None:
    """Refuse what is not an `int` within its bounds; `bool` is no number of anything."""
    low, high = BOUNDS[name]
    if type(value) is int and low <= value <= high:
        return
    between = f"from {low:#o} to {high:#o}" if name == "uds_mode" else f"from {low} to {high}"
    raise ValueError(f"{name} must be an int {between}")


def check_duration(name: str, value: object) -> None:
    """Refuse what is no number of seconds; infinity is none either (0 means no limit)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if not is_duration(value):
        raise ValueError(f"{name} must be a number of seconds up to {MAX_SECONDS}")


def is_duration(value: float) -> bool:
    """Whether it is a number of seconds: what is 0 or less stands for none."""
    # An int may be too large to be a float.
    return value <= MAX_SECONDS and (isinstance(value, int) or math.isfinite(value))


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
        except (OSError, OverflowError):
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
