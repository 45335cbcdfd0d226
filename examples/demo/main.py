"""The example app: one route of each kind, and a page to try them and watch the rate.

Run it with `cargo xtask serve`, or `oxbrook run main:app --app-dir examples/demo`.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

from oxbrook import App, HTTPError, Request, Response, Stream

PAGE = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")

app = App("Oxbrook demo", openapi_url=None, docs_url=None, mcp_url=None)


class Tally:
    """Counts answered requests; loops of a free-threaded interpreter count at the same time."""

    def __init__(self) -> None:
        self.total = 0
        self.lock = threading.Lock()

    def add(self) -> None:
        with self.lock:
            self.total += 1


tally = Tally()


@app.get("/")
async def page() -> Response:
    return Response(PAGE, content_type="text/html; charset=utf-8")


@app.get("/live")
async def live() -> Stream:
    """One event a second, for as long as the page is open; its slot is free once the client has left."""
    headers = {"Cache-Control": "no-store"}
    return Stream(rates(), content_type="text/event-stream; charset=utf-8", headers=headers)


async def rates() -> AsyncIterator[str]:
    total, moment = tally.total, time.monotonic()
    yield event(0.0, total)
    while True:
        await asyncio.sleep(1)
        last_total, last_moment = total, moment
        total, moment = tally.total, time.monotonic()
        yield event((total - last_total) / (moment - last_moment), total)


def event(rate: float, total: int) -> str:
    facts = {
        "rate": round(rate, 1),
        "total": total,
        "loops": app.workers,
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "pid": os.getpid(),
    }
    return f"data: {json.dumps(facts)}\n\n"


@app.get("/hello/{name}")
async def hello(name: str) -> str:
    tally.add()
    return f"Hello, {name}!"


@app.get("/square/{number}")
async def square(number: int) -> dict[str, int]:
    """`/square/abc` is answered 422 by Rust: no Python runs for it."""
    tally.add()
    return {"number": number, "square": number * number}


@app.get("/search")
async def search(
    q: str, tag: list[str] | None = None, limit: int = 10, order: Literal["new", "old"] = "new"
) -> dict[str, object]:
    tally.add()
    return {"q": q, "tags": tag or [], "limit": limit, "order": order}


@app.get("/now", inline=True)
def now() -> dict[str, float]:
    """Inline: a plain function called on the loop itself, for work that is short and never waits."""
    tally.add()
    return {"now": time.time()}


@app.get("/work/{milliseconds}", blocking=True)
def work(milliseconds: int) -> dict[str, str]:
    """Blocking: a plain function on the thread pool, so waiting here holds up nobody else."""
    tally.add()
    time.sleep(min(max(milliseconds, 0), 2000) / 1000)
    return {"thread": threading.current_thread().name}


@app.get("/sleep/{milliseconds}")
async def sleep(milliseconds: int) -> dict[str, str]:
    tally.add()
    await asyncio.sleep(min(max(milliseconds, 0), 2000) / 1000)
    return {"thread": threading.current_thread().name}


@app.post("/echo")
async def echo(request: Request) -> dict[str, object]:
    tally.add()
    return {
        "length": len(request.body),
        "content_type": request.header("content-type"),
        "text": request.body[:200].decode("utf-8", "replace"),
    }


@app.get("/countdown/{start}")
async def countdown(start: int) -> Stream:
    """A stream: each line leaves when it is made."""
    tally.add()
    if not 0 <= start <= 60:
        raise HTTPError(400, "a countdown starts between 0 and 60")
    return Stream(lines(start), content_type="text/plain; charset=utf-8")


async def lines(start: int) -> AsyncIterator[str]:
    for number in range(start, 0, -1):
        yield f"{number}\n"
        await asyncio.sleep(0.3)
    yield "lift-off\n"


@app.get("/teapot")
async def teapot() -> None:
    tally.add()
    raise HTTPError(418, "this pot holds tea", extensions={"blend": "oolong"})


@app.get("/crash")
async def crash() -> None:
    """The text of this error is logged and never sent: a client reads `Internal Server Error`."""
    tally.add()
    raise RuntimeError("a secret that stays on the server")
