"""What `oxb-bench mixed` talks to: short, slow, blocking, uploading and streaming handlers.

The token of a request is its answer, an upload is answered with its size: see the generator's mixed load.
"""

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator

from native import info

from oxbrook import App, Request, Stream

app = App(openapi_url=None, docs_url=None, mcp_url=None)
app.get("/info")(info)


@app.get("/token/{token}")
async def token(token: str) -> str:
    return token


@app.get("/slow/{token}")
async def slow(token: str) -> str:
    await asyncio.sleep(0.05)
    return token


@app.get("/block/{token}", blocking=True)
def block(token: str) -> str:
    time.sleep(0.005)
    return token


@app.get("/hang")
async def hang() -> str:
    await asyncio.sleep(10)
    return "nobody waited"


@app.post("/upload")
async def upload(request: Request) -> str:
    return str(len(request.body))


@app.get("/stream/{count}")
async def stream(count: int) -> Stream:
    async def chunks() -> AsyncIterator[bytes]:
        for number in range(count):
            if number % 8 == 7:
                await asyncio.sleep(0)
            yield b"s" * 1024

    return Stream(chunks(), content_type="text/plain")


@app.get("/counts")
async def counts() -> dict[str, int]:
    """What must be the same before and after a soak."""
    gc.collect()
    return {
        "objects": len(gc.get_objects()),
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
    }
