"""The peers' hello: a raw ASGI and a raw RSGI callable with everything encoded beforehand.

This is the fastest a peer can be asked to be. The header fields are ours; granian adds one.
"""

import asyncio
import json
import os

BODY = b"Hello, world!"
CONTENT_TYPE = "text/plain; charset=utf-8"
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", CONTENT_TYPE.encode()), (b"content-length", str(len(BODY)).encode())],
}
END = {"type": "http.response.body", "body": BODY}
RSGI_HEADERS = [("content-type", CONTENT_TYPE), ("content-length", str(len(BODY)))]


def info() -> bytes:
    loop = type(asyncio.get_running_loop())
    about = {"pid": os.getpid(), "parent": os.getppid(), "loop": f"{loop.__module__}.{loop.__qualname__}"}
    return json.dumps(about).encode()


async def asgi(scope, receive, send):
    if scope["type"] == "http" and scope["path"] == "/":
        await send(START)
        await send(END)
    elif scope["type"] == "http":
        body = info()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
    elif scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return


class Rsgi:
    async def __rsgi__(self, scope, protocol):
        if scope.path == "/":
            protocol.response_bytes(200, RSGI_HEADERS, BODY)
        else:
            protocol.response_bytes(200, [], info())


rsgi = Rsgi()
