"""The scenario app on aiohttp's own server: `python aiohttp_app.py --port PORT --loop LOOP`."""

import argparse
import asyncio
from collections.abc import AsyncIterator, Callable

import about
import work
from aiohttp import WSMsgType, web
from orders import Item, Order, price
from upstream import Clients

clients = Clients()


async def clients_of_the_process(_app: web.Application) -> AsyncIterator[None]:
    await clients.open()
    yield
    await clients.close()


async def hello(_request: web.Request) -> web.Response:
    return web.Response(text=work.HELLO)


async def info(_request: web.Request) -> web.Response:
    return web.json_response(about.about())


async def token(request: web.Request) -> web.Response:
    return web.Response(text=request.match_info["token"])


async def query(request: web.Request) -> web.Response:
    return web.Response(text=request.query["token"])


async def item(request: web.Request) -> web.Response:
    item = Item(
        id=int(request.match_info["id"]),
        quantity=int(request.query["quantity"]),
        currency=request.query["currency"],
    )
    return web.Response(text=item.model_dump_json(), content_type="application/json")


async def order(request: web.Request) -> web.Response:
    priced = price(Order.model_validate_json(await request.read()))
    return web.Response(text=priced.model_dump_json(), content_type="application/json")


async def payload(request: web.Request) -> web.Response:
    return web.Response(body=work.PAYLOADS[int(request.match_info["size"])], content_type="text/plain")


async def upload(request: web.Request) -> web.Response:
    size = 0
    async for piece in request.content.iter_any():
        size += len(piece)
    return web.Response(text=str(size))


async def form(request: web.Request) -> web.Response:
    fields = await request.post()
    return web.Response(text=f"{fields['name']} {len(str(fields['text']))}")


async def multipart(request: web.Request) -> web.Response:
    fields = await request.post()
    file = fields["file"]
    assert isinstance(file, web.FileField)
    return web.Response(text=f"{fields['name']} {len(file.file.read())}")


async def sse(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": work.EVENT_STREAM})
    await response.prepare(request)
    async for event in work.events(int(request.query["count"]), float(request.query.get("pause", "0"))):
        await response.write(event)
    await response.write_eof()
    return response


async def proxy_aiohttp(request: web.Request) -> web.Response:
    return web.Response(body=await clients.by_aiohttp(await request.read()), content_type="application/json")


async def proxy_httpx(request: web.Request) -> web.Response:
    return web.Response(body=await clients.by_httpx(await request.read()), content_type="application/json")


async def echo(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        if message.type == WSMsgType.TEXT:
            await socket.send_str(message.data)
        elif message.type == WSMsgType.BINARY:
            await socket.send_bytes(message.data)
    return socket


def make() -> web.Application:
    """The app."""
    app = web.Application(client_max_size=1 << 30)
    app.cleanup_ctx.append(clients_of_the_process)
    app.add_routes(
        [
            web.get("/", hello),
            web.get("/info", info),
            web.get("/token/{token}", token),
            web.get("/query", query),
            web.get("/items/{id}", item),
            web.post("/orders", order),
            web.get("/payload/{size}", payload),
            web.post("/upload", upload),
            web.post("/form", form),
            web.post("/multipart", multipart),
            web.get("/sse", sse),
            web.post("/proxy/aiohttp", proxy_aiohttp),
            web.post("/proxy/httpx", proxy_httpx),
            web.get("/ws", echo),
            web.static("/static", work.static_folder()),
        ]
    )
    return app


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the event loop of that name."""
    if name == "uvloop":
        import uvloop

        return uvloop.new_event_loop
    if name == "rloop":
        import rloop

        return rloop.new_event_loop
    return asyncio.new_event_loop


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--loop", choices=["asyncio", "uvloop", "rloop"], default="asyncio")
    given = parser.parse_args()
    loop = loop_factory(given.loop)()
    web.run_app(make(), host="127.0.0.1", port=given.port, loop=loop, access_log=None, print=None)
