"""What clients send and get."""

import decimal
import enum
from typing import Annotated

from pydantic import BaseModel, Field

from oxbrook import UploadFile

# SQLite keeps whole numbers in 64 bits.
Id = Annotated[int, Field(ge=1, le=2**63 - 1)]
Name = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f]+$")]
Price = Annotated[decimal.Decimal, Field(ge=0, max_digits=10, decimal_places=2)]


class Kind(enum.Enum):
    """Where in the barn an item belongs."""

    FEED = "feed"
    TOOL = "tool"
    TACK = "tack"


class Problem(BaseModel):
    """What every error is answered with (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str | None = None


class Credentials(BaseModel):
    """A name and a password."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{1,31}$")]
    password: Annotated[str, Field(min_length=8, max_length=200, pattern=r"^[^\x00]+$")]


class User(BaseModel):
    """Who has an account."""

    id: int
    name: str
    made_at: str


class NewItem(BaseModel):
    """An item as its owner gives it."""

    name: Name
    kind: Kind
    count: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    price: Price = decimal.Decimal("0.00")


class Item(NewItem):
    """An item of the barn."""

    id: int
    owner: str


class Listed(BaseModel):
    """A page of items."""

    items: list[Item]
    total: int


class Import(BaseModel):
    """A file of items: CSV with a header line `name,kind,count,price`."""

    file: UploadFile
    replace: bool = False


class Imported(BaseModel):
    """What became of a file."""

    added: int
    replaced: int


class Total(BaseModel):
    """What the barn holds of one kind."""

    kind: Kind
    items: int
    worth: decimal.Decimal
