"""The scenario app on BlackSheep, served by an ASGI server: no forms, and no clients of an upstream."""

from collections.abc import AsyncIterator

import about
import work
from blacksheep import (
    Application,
    Content,
    FromQuery,
    Request,
    Response,
    StreamedContent,
    WebSocket,
    get,
    json,
    post,
    text,
    ws,
)
from blacksheep.server.websocket import WebSocketDisconnectError
from orders import Item, Order, price

app = Application()
app.serve_files(work.static_folder(), root_path="static", extensions={".bin"})


def model(value: Item | object) -> Response:
    return Response(200, content=Content(b"application/json", value.model_dump_json().encode()))  # type: ignore[attr-defined]


@get("/")
async def hello() -> Response:
    return text(work.HELLO)


@get("/info")
async def info() -> Response:
    return json(about.about())


@get("/token/{token}")
async def token(token: str) -> Response:
    return text(token)


@get("/query")
async def query(token: FromQuery[str]) -> Response:
    return text(token.value)


@get("/items/{id}")
async def item(id: int, quantity: FromQuery[int], currency: FromQuery[str]) -> Response:
    return model(Item(id=id, quantity=quantity.value, currency=currency.value))


@post("/orders")
async def order(request: Request) -> Response:
    return model(price(Order.model_validate_json(await request.read() or b"")))


@get("/payload/{size}")
async def payload(size: int) -> Response:
    return Response(200, content=Content(work.PLAIN.encode(), work.PAYLOADS[size]))


@post("/upload")
async def upload(request: Request) -> Response:
    size = 0
    async for piece in request.stream():
        size += len(piece)
    return text(str(size))


@get("/sse")
async def sse(count: FromQuery[int], request: Request) -> Response:
    pause = float((request.query.get("pause") or ["0"])[0])

    async def body() -> AsyncIterator[bytes]:
        async for event in work.events(count.value, pause):
            yield event

    return Response(200, content=StreamedContent(work.EVENT_STREAM.encode(), body))


@ws("/ws")
async def echo(socket: WebSocket) -> None:
    await socket.accept()
    try:
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            if message.get("text") is not None:
                await socket.send_text(message["text"])
            else:
                await socket.send_bytes(message["bytes"])
    except WebSocketDisconnectError:
        return
