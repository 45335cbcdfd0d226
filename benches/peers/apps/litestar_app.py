"""The scenario app on Litestar, served by an ASGI server: no forms, and no clients of an upstream."""

import about
import work
from litestar import Litestar, MediaType, Request, Response, WebSocket, get, post, websocket
from litestar.response import Stream
from litestar.static_files import create_static_files_router
from orders import Item, Order, Priced, price


@get("/", media_type=MediaType.TEXT)
async def hello() -> str:
    return work.HELLO


@get("/info")
async def info() -> dict[str, object]:
    return about.about()


@get("/token/{token:str}", media_type=MediaType.TEXT)
async def token(token: str) -> str:
    return token


@get("/query", media_type=MediaType.TEXT)
async def query(token: str) -> str:
    return token


@get("/items/{id:int}")
async def item(id: int, quantity: int, currency: str) -> Item:
    return Item(id=id, quantity=quantity, currency=currency)


@post("/orders", status_code=200)
async def order(data: Order) -> Priced:
    return price(data)


@get("/payload/{size:int}")
async def payload(size: int) -> Response[bytes]:
    return Response(work.PAYLOADS[size], media_type=work.PLAIN)


@post("/upload", status_code=200, media_type=MediaType.TEXT)
async def upload(request: Request) -> str:
    size = 0
    async for piece in request.stream():
        size += len(piece)
    return str(size)


@get("/sse")
async def sse(count: int, pause: float = 0) -> Stream:
    return Stream(work.events(count, pause), media_type=work.EVENT_STREAM)


@websocket("/ws")
async def echo(socket: WebSocket) -> None:
    await socket.accept()
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        if message.get("text") is not None:
            await socket.send_text(message["text"])
        else:
            await socket.send_bytes(message["bytes"])


static = create_static_files_router(path="/static", directories=[work.static_folder()])
app = Litestar(
    [hello, info, token, query, item, order, payload, upload, sse, echo, static],
    openapi_config=None,
    request_max_body_size=None,
    logging_config=None,
)
