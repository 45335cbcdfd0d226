"""Bodies that are read while they arrive: `BodyStream`, and `request.read()` (api.md 3 and 4.4).

Invariant: nothing of a body that flows is asked for before somebody awaits it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from oxbrook._core import Inlet, Request


class BodyStream:
    """The body of a request, piece by piece: an async iterator of `bytes`.

    Made by hand of `bytes`, it gives them as one piece, for tests of handlers.

    Raises: from every read HTTPError 413 for a body over its limit, 408 when its client is silent, 400 when
        it ends early; RuntimeError when two Tasks read at once.
    """

    __slots__ = ("_source",)

    def __init__(self, source: Inlet | bytes) -> None:
        self._source = Whole(source) if isinstance(source, (bytes, bytearray)) else source

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._next()
        if not piece:
            raise StopAsyncIteration
        return piece

    async def read(self) -> bytes:
        """Return the rest of the body; nothing when all was read."""
        pieces = []
        while piece := await self._next():
            pieces.append(piece)
        return b"".join(pieces)

    async def _next(self) -> bytes:
        """Return the next piece; nothing at the end."""
        while (piece := self._source.take()) is None:
            await self._source.ready()
        return piece


class Whole:
    """A body that is there, as one piece."""

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def take(self) -> bytes | None:
        """Return it the first time, nothing later."""
        body, self._body = self._body, b""
        return body

    async def ready(self) -> None:
        """Nothing is waited for."""


async def read_whole(request: Request, inlet: Inlet | None) -> bytes:
    """Return the whole body of a request, read through `inlet` where it flows and kept there.

    Raises: as `BodyStream`; RuntimeError when some of it was read as a stream.
    """
    if inlet is None or inlet.whole is not None:
        return request.body
    if inlet.is_begun:
        raise RuntimeError("the body was begun to be read as a stream: what was read is not there any more")
    body = await request.stream().read()
    inlet.keep(body)
    return body
