"""A raw ASGI and a raw RSGI callable: the fastest a peer can be asked to be, answers encoded beforehand.

`GET /`, `/info`, `/payload/SIZE`, `/sse?count=N&pause=S`; `POST /upload` (its size), `/echo`; `/ws` echoes.
The header fields are those of oxbrook's answer.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

import about
import work

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def start(content_type: str, length: int | None) -> Message:
    fields = [(b"content-type", content_type.encode())]
    if length is not None:
        fields.append((b"content-length", str(length).encode()))
    return {"type": "http.response.start", "status": 200, "headers": fields}


def whole(body: bytes) -> tuple[Message, Message]:
    return start(work.PLAIN, len(body)), {"type": "http.response.body", "body": body}


FIXED = {"/": whole(work.HELLO.encode())} | {
    f"/payload/{size}": whole(body) for size, body in work.PAYLOADS.items()
}
MISSING = {"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]}


def asked(query: bytes | str) -> tuple[int, float]:
    """Count and pause of an event stream."""
    text = query.decode() if isinstance(query, bytes) else query
    values = parse_qs(text)
    return int(values.get("count", ["1"])[0]), float(values.get("pause", ["0"])[0])


async def asgi(scope: Message, receive: Receive, send: Send) -> None:
    """The ASGI callable."""
    if scope["type"] == "http":
        answer = FIXED.get(scope["path"])
        if answer is None:
            await other(scope, receive, send)
            return
        await send(answer[0])
        await send(answer[1])
    elif scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    elif scope["type"] == "websocket":
        await echo(receive, send)


async def other(scope: Message, receive: Receive, send: Send) -> None:
    """What is not encoded beforehand."""
    path = scope["path"]
    if path == "/sse":
        count, pause = asked(scope["query_string"])
        await send(start(work.EVENT_STREAM, None))
        async for event in work.events(count, pause):
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    if path == "/info":
        body = about.encoded()
    elif path in ("/upload", "/echo"):
        size, pieces, has_more = 0, [], True
        while has_more:
            message = await receive()
            piece = message.get("body", b"")
            size += len(piece)
            if path == "/echo":
                pieces.append(piece)
            has_more = message.get("more_body", False)
        body = b"".join(pieces) if path == "/echo" else str(size).encode()
    else:
        await send(MISSING)
        await send({"type": "http.response.body", "body": b""})
        return
    for message in whole(body):
        await send(message)


async def echo(receive: Receive, send: Send) -> None:
    """Whatever comes over a WebSocket goes back."""
    while True:
        message = await receive()
        if message["type"] == "websocket.connect":
            await send({"type": "websocket.accept"})
        elif message["type"] == "websocket.receive":
            kind = "text" if message.get("text") is not None else "bytes"
            await send({"type": "websocket.send", kind: message[kind]})
        else:
            return


def rsgi_fields(content_type: str, length: int) -> list[tuple[str, str]]:
    return [("content-type", content_type), ("content-length", str(length))]


RSGI_FIXED = {"/": work.HELLO.encode()} | {f"/payload/{size}": body for size, body in work.PAYLOADS.items()}
RSGI_FIELDS = {path: rsgi_fields(work.PLAIN, len(body)) for path, body in RSGI_FIXED.items()}


class Rsgi:
    """The RSGI application."""

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        """Answer one request or serve one WebSocket."""
        path = scope.path
        body = RSGI_FIXED.get(path)
        if body is not None:
            protocol.response_bytes(200, RSGI_FIELDS[path], body)
        elif scope.proto == "ws":
            await self.echo(protocol)
        elif path == "/sse":
            count, pause = asked(scope.query_string)
            stream = protocol.response_stream(200, [("content-type", work.EVENT_STREAM)])
            async for event in work.events(count, pause):
                await stream.send_bytes(event)
        elif path == "/upload":
            size = 0
            async for piece in protocol:
                size += len(piece)
            self.give(protocol, str(size).encode())
        elif path == "/echo":
            self.give(protocol, await protocol())
        elif path == "/info":
            self.give(protocol, about.encoded())
        else:
            protocol.response_empty(404, [])

    def give(self, protocol: Any, body: bytes) -> None:
        protocol.response_bytes(200, rsgi_fields(work.PLAIN, len(body)), body)

    async def echo(self, protocol: Any) -> None:
        socket = await protocol.accept()
        while True:
            message = await socket.receive()
            if message.kind == 1:
                await socket.send_bytes(message.data)
            elif message.kind == 2:
                await socket.send_str(message.data)
            else:
                return


rsgi = Rsgi()
