"""A nested model in and a model out: what validation costs. pydantic is not on every interpreter."""

import asyncio
import os

from pydantic import BaseModel

from oxbrook import App

app = App(openapi_url=None, docs_url=None, mcp_url=None)


@app.get("/info")
async def info() -> dict[str, object]:
    # The implementation: ours may be derived from it.
    classes = type(asyncio.get_running_loop()).__mro__
    loop = next(base for base in classes if not base.__module__.startswith("oxbrook"))
    return {"pid": os.getpid(), "parent": os.getppid(), "loop": f"{loop.__module__}.{loop.__qualname__}"}


class Line(BaseModel):
    sku: str
    quantity: int


class Order(BaseModel):
    id: int
    lines: list[Line]


class Total(BaseModel):
    id: int
    quantity: int


@app.post("/order")
async def order(order: Order) -> Total:
    return Total(id=order.id, quantity=sum(line.quantity for line in order.lines))
