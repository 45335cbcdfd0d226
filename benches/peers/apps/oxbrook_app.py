"""The scenario app written natively for oxbrook.

A client belongs to one event loop, so there is one of each kind for every worker loop.
"""

import asyncio
from collections.abc import AsyncIterator

import about
import work
from orders import Item, Order, Priced, price
from pydantic import BaseModel
from upstream import Clients

from oxbrook import App, BodyStream, Form, Request, Response, Stream, UploadFile


class Text(BaseModel):
    name: str
    text: str


class File(BaseModel):
    name: str
    file: UploadFile


async def worker_lifespan(_app: App) -> AsyncIterator[dict[str, Clients]]:
    clients = Clients()
    await clients.open()
    try:
        yield {"clients": clients}
    finally:
        await clients.close()


app = App(openapi_url=None, docs_url=None, mcp_url=None, worker_lifespan=worker_lifespan)


@app.get("/")
async def hello() -> str:
    return work.HELLO


@app.get("/info")
async def info() -> dict[str, object]:
    return about.about()


@app.get("/token/{token}")
async def token(token: str) -> str:
    return token


@app.get("/query")
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
    return Response(work.PAYLOADS[size], content_type=work.PLAIN)


@app.post("/upload")
async def upload(body: BodyStream) -> str:
    size = 0
    async for piece in body:
        size += len(piece)
    return str(size)


@app.post("/upload/slowly")
async def upload_slowly(body: BodyStream) -> str:
    """Take a piece a millisecond at most: the client has to wait."""
    size = 0
    async for piece in body:
        size += len(piece)
        await asyncio.sleep(0.001)
    return str(size)


@app.post("/form")
async def form(form: Text = Form()) -> str:
    return f"{form.name} {len(form.text)}"


@app.post("/multipart")
async def multipart(form: File = Form()) -> str:
    return f"{form.name} {form.file.size}"


@app.get("/sse")
async def sse(count: int, pause: float = 0) -> Stream:
    return Stream(work.events(count, pause), content_type=work.EVENT_STREAM)


@app.post("/proxy/aiohttp")
async def proxy_aiohttp(request: Request) -> Response:
    body = await request.state.clients.by_aiohttp(request.body)
    return Response(body, content_type="application/json")


@app.post("/proxy/httpx")
async def proxy_httpx(request: Request) -> Response:
    body = await request.state.clients.by_httpx(request.body)
    return Response(body, content_type="application/json")
