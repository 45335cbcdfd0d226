"""A nested model in and a model out: what validation costs. pydantic is not on every interpreter."""

from native import info
from pydantic import BaseModel

from oxbrook import App

app = App(openapi_url=None, docs_url=None, mcp_url=None)
app.get("/info")(info)


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
