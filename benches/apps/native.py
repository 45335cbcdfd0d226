"""The native app of every benchmark row: one handler for each kind of work that is measured.

What is not about the work is the same everywhere: async handlers, plain text, nothing cached. `/info` is the
evidence of what answers, so that a row cannot claim another process or event loop than it measured.
"""

import asyncio
import os
import sys
import time

from oxbrook import App

app = App(openapi_url=None, docs_url=None, mcp_url=None)


@app.get("/")
async def hello() -> str:
    return "Hello, world!"


@app.get("/info")
async def info() -> dict[str, object]:
    # The implementation: ours may be derived from it.
    classes = type(asyncio.get_running_loop()).__mro__
    loop = next(base for base in classes if not base.__module__.startswith("oxbrook"))
    is_gil_enabled = getattr(sys, "_is_gil_enabled", lambda: True)()
    name = f"{loop.__module__}.{loop.__qualname__}"
    return {"pid": os.getpid(), "parent": os.getppid(), "loop": name, "gil": is_gil_enabled}


@app.get("/token/{token}")
async def token(token: str) -> str:
    return token


@app.get("/query")
async def query(token: str) -> str:
    return token


@app.get("/spin/{count}")
async def spin(count: int) -> str:
    """Pure Python work that holds its loop: 20,000 turns are a few hundred microseconds."""
    total = 0
    for number in range(count):
        total += number
    return str(total)


@app.get("/sleep/{milliseconds}")
async def sleep(milliseconds: int) -> str:
    """Holds its loop without using a core."""
    time.sleep(milliseconds / 1e3)  # noqa: ASYNC251 - that is what this row measures
    return "slept"


@app.get("/await/{milliseconds}")
async def wait(milliseconds: int) -> str:
    await asyncio.sleep(milliseconds / 1e3)
    return "waited"


@app.get("/nap/{milliseconds}")
async def nap(milliseconds: int) -> str:
    """How long a sleep took in the eyes of the handler, in milliseconds."""
    begin = time.perf_counter()
    await asyncio.sleep(milliseconds / 1e3)
    return f"{(time.perf_counter() - begin) * 1e3:.3f}"
