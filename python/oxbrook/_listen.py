"""The listening socket of the supervisor of `--reload`: bound once, handed to every child.

Invariant: a Unix socket file is never wider than its rights, not even for a moment; one somebody listens on
is left alone.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

HOST: Final = "127.0.0.1"
PORT: Final = 8000
BACKLOG: Final = 2048
UDS_MODE: Final = 0o660


class BindError(RuntimeError):
    """The place cannot be listened on; the text starts with `bind `."""


@contextmanager
def listening(options: Mapping[str, Any]) -> Iterator[int]:
    """Hold a listening socket for the place in these options of `run`; `fd` is taken as it is.

    Returns: its descriptor. A socket file made here is removed at the end, unless another took its place.
    Raises: BindError.
    """
    if options.get("fd") is not None:
        yield options["fd"]
        return
    backlog = options.get("backlog", BACKLOG)
    path = options.get("uds")
    if path is None:
        with listen_tcp(options.get("host", HOST), options.get("port", PORT), backlog) as listener:
            yield listener.fileno()
        return
    with listen_unix(path, options.get("uds_mode", UDS_MODE), backlog) as listener:
        made = os.stat(path).st_ino
        try:
            yield listener.fileno()
        finally:
            with suppress(FileNotFoundError):
                if os.stat(path).st_ino == made:
                    os.unlink(path)


def listen_tcp(host: str, port: int, backlog: int) -> socket.socket:
    """Listen on the first address a host stands for, brackets of an IPv6 literal taken off."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            bare, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise BindError(f"bind {host}:{port}: {error.strerror or error}") from None
    try:
        # A restarted server may take its port while old connections are still in TIME_WAIT.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise BindError(f"bind {host}:{port}: {error.strerror or error}") from None
    return listener


def listen_unix(path: str, mode: int, backlog: int) -> socket.socket:
    """Listen on a socket file; one nobody listens on is replaced and keeps its rights."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        stale = stale_mode(path)
        if stale is not None:
            os.unlink(path)
            mode = stale
        before = os.umask(0o777 & ~mode)
        try:
            listener.bind(path)
        finally:
            os.umask(before)
        # The umask can only take rights away from what bind(2) gives; this makes them exact.
        os.chmod(path, mode)
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise BindError(f"bind unix:{path}: {error.strerror or error}") from None
    except BindError:
        listener.close()
        raise
    return listener


def stale_mode(path: str) -> int | None:
    """Return the rights of a socket file nobody listens on, or None where there is no file.

    Raises: BindError for a socket in use and for a file of another kind.
    """
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISSOCK(found.st_mode):
        raise BindError(f"bind unix:{path}: a file that is no socket is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        # A listener whose queue is full would let the connection wait: it is in use.
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return stat.S_IMODE(found.st_mode)
        except BlockingIOError:
            pass
    raise BindError(f"bind unix:{path}: address already in use")
