"""Sending the body of a `Stream` or a `File`: the coroutine that the Task of its request goes on with.

Invariant: the source is closed when this ends, however it ends, and is not asked while too much is unsent.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Coroutine
from typing import TYPE_CHECKING, Final

from oxbrook._responses import File

if TYPE_CHECKING:
    from oxbrook._core import Outlet

LOGGER: Final = logging.getLogger("oxbrook")


async def send_stream(source: AsyncIterable[object], outlet: Outlet, declared: int | None) -> None:
    """Send every piece of `source`; `declared` is the length its headers promise, in bytes.

    Raises: what the source raises; ValueError when it gives more or less than it declared; TypeError for an
    item that is neither bytes nor text. The caller then breaks the connection off.
    """
    iterator = aiter(source)
    sent = 0
    try:
        async for piece in iterator:
            if isinstance(piece, str):
                piece = piece.encode()
            elif not isinstance(piece, bytes):
                if not isinstance(piece, (bytearray, memoryview)):
                    raise TypeError(f"a Stream gives bytes or str, not {type(piece).__name__}")
                piece = bytes(piece)
            sent += len(piece)
            if declared is not None and sent > declared:
                raise ValueError(f"a Stream that declared {declared} bytes gave more")
            if outlet.send(piece):
                await outlet.room()
        if declared is not None and sent < declared:
            raise ValueError(f"a Stream that declared {declared} bytes gave {sent}")
    finally:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            await close()


async def send_file(file: File, outlet: Outlet) -> None:
    """Wait until the engine has sent a file; say so where there was none (api.md 5.2)."""
    await outlet.room()
    end = outlet.file_end()
    if end == "missing":
        LOGGER.warning("a File that is not there, or is no regular file: %s", file.path)
    elif end == "broken":
        LOGGER.error("a File broke off while it was sent: %s", file.path)


def send_body(
    source: AsyncIterable[object] | File, outlet: Outlet, declared: int | None
) -> Coroutine[object, object, None]:
    """Return the coroutine that sends the body of a `Stream` or sees a `File` sent."""
    if isinstance(source, File):
        return send_file(source, outlet)
    return send_stream(source, outlet, declared)
