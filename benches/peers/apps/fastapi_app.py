"""The scenario app on FastAPI, for every server that speaks ASGI."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import about
import work
from fastapi import FastAPI, File, Form, Request, Response, UploadFile, WebSocket, WebSocketDisconnect
from fastapi.responses import PlainTextResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from orders import Item, Order, Priced, price
from upstream import Clients

clients = Clients()


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    await clients.open()
    yield
    await clients.close()


app = FastAPI(lifespan=lifespan, openapi_url=None)
app.mount("/static", StaticFiles(directory=work.static_folder()))


@app.get("/", response_class=PlainTextResponse)
async def hello() -> str:
    return work.HELLO


@app.get("/info")
async def info() -> dict[str, object]:
    return about.about()


@app.get("/token/{token}", response_class=PlainTextResponse)
async def token(token: str) -> str:
    return token


@app.get("/query", response_class=PlainTextResponse)
async def query(token: str) -> str:
    return token


@app.get("/items/{id}")
async def item(id: int, quantity: int, currency: str) -> Item:
    return Item(id=id, quantity=quantity, currency=currency)


@app.post("/orders")
async def order(order: Order) -> Priced:
    return price(order)


@app.get("/payload/{size}")
async def payload(size: int) -> Response:
    return Response(work.PAYLOADS[size], media_type=work.PLAIN)


@app.post("/upload", response_class=PlainTextResponse)
async def upload(request: Request) -> str:
    size = 0
    async for piece in request.stream():
        size += len(piece)
    return str(size)


@app.post("/form", response_class=PlainTextResponse)
async def form(name: Annotated[str, Form()], text: Annotated[str, Form()]) -> str:
    return f"{name} {len(text)}"


@app.post("/multipart", response_class=PlainTextResponse)
async def multipart(name: Annotated[str, Form()], file: Annotated[UploadFile, File()]) -> str:
    return f"{name} {len(await file.read())}"


@app.get("/sse")
async def sse(count: int, pause: float = 0) -> StreamingResponse:
    return StreamingResponse(work.events(count, pause), media_type=work.EVENT_STREAM)


@app.post("/proxy/aiohttp")
async def proxy_aiohttp(request: Request) -> Response:
    return Response(await clients.by_aiohttp(await request.body()), media_type="application/json")


@app.post("/proxy/httpx")
async def proxy_httpx(request: Request) -> Response:
    return Response(await clients.by_httpx(await request.body()), media_type="application/json")


@app.websocket("/ws")
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
    except WebSocketDisconnect:
        return
