"""The models of the scenarios `features` and `app`: an order goes in nested, and comes out priced."""

from pydantic import BaseModel, Field


class Customer(BaseModel):
    """Who orders."""

    name: str = Field(min_length=1, max_length=100)
    email: str
    country: str = Field(min_length=2, max_length=2)


class Line(BaseModel):
    """So many of one thing."""

    sku: str
    quantity: int = Field(ge=1, le=1000)
    cents: int = Field(ge=0)


class Order(BaseModel):
    """What `POST /orders` takes."""

    customer: Customer
    lines: list[Line] = Field(min_length=1)
    currency: str = "EUR"


class Priced(BaseModel):
    """What `POST /orders` gives."""

    customer: Customer
    lines: list[Line]
    currency: str
    total_cents: int


class Item(BaseModel):
    """What `GET /items/{id}` gives."""

    id: int
    quantity: int
    currency: str


def price(order: Order) -> Priced:
    """The order with its sum."""
    total = sum(line.quantity * line.cents for line in order.lines)
    return Priced(customer=order.customer, lines=order.lines, currency=order.currency, total_cents=total)
