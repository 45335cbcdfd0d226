"""Parameters as a handler gets them: what Rust coerced is of the declared type (api.md 2.5, invariant 6)."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Literal
from urllib.parse import quote
from uuid import UUID

import pytest

from oxbrook import App, Request
from oxbrook.testing import TestClient

ID = UUID("12345678-1234-5678-1234-567812345678")
DEFAULT: list[int] = [7]
GOT: list[object] = []


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = -2


# kind -> text on the wire, value
CASES: list[tuple[str, str, object]] = [
    ("str", "a b/é+%", "a b/é+%"),
    ("int", "-9223372036854775808", -(2**63)),
    ("int", "+7", 7),
    ("int", "007", 7),
    ("float", "1e3", 1000.0),
    ("float", "-0.5", -0.5),
    ("bool", "yes", True),
    ("bool", "off", False),
    ("uuid", str(ID), ID),
    ("uuid", f"{{{ID}}}", ID),
    ("uuid", f"urn:uuid:{ID}".upper().replace("URN:UUID", "urn:uuid"), ID),
    ("uuid", "0" * 32, UUID(int=0)),
    ("uuid", "F" * 32, UUID(int=2**128 - 1)),
    ("date", "2026-01-02", date(2026, 1, 2)),
    ("date", "0001-01-01", date.min),
    ("date", "99991231", date.max),
    ("date", "2024-366", date(2024, 12, 31)),
    ("date", "2026-W01-1", date(2025, 12, 29)),
    ("datetime", "2026-01-02T10:20", datetime(2026, 1, 2, 10, 20)),
    ("datetime", "2026-01-02T10:20:30.1234567", datetime(2026, 1, 2, 10, 20, 30, 123456)),
    ("datetime", "2026-01-02T10:20:30Z", datetime(2026, 1, 2, 10, 20, 30, tzinfo=UTC)),
    (
        "datetime",
        "2026-01-02T10:20+05:30",
        datetime(2026, 1, 2, 10, 20, tzinfo=timezone(timedelta(hours=5.5))),
    ),
    (
        "datetime",
        "2026-01-02T10:20-0330",
        datetime(2026, 1, 2, 10, 20, tzinfo=timezone(-timedelta(hours=3.5))),
    ),
    ("decimal", "12.50", Decimal("12.50")),
    ("decimal", "-1e-400", Decimal("-1e-400")),
    ("decimal", "0." + "1" * 60, Decimal("0." + "1" * 60)),
    ("enum", "blue", Colour.BLUE),
    ("level", "-2", Level.HIGH),
    ("literal", "b", "b"),
    ("literal", "3", 3),
]


def build() -> App:
    app = App()

    @app.get("/path/str/{value}")
    @app.get("/query/str")
    async def take_str(value: str) -> None:
        GOT.append(value)

    @app.get("/path/int/{value}")
    @app.get("/query/int")
    async def take_int(value: int) -> None:
        GOT.append(value)

    @app.get("/path/float/{value}")
    @app.get("/query/float")
    async def take_float(value: float) -> None:
        GOT.append(value)

    @app.get("/path/bool/{value}")
    @app.get("/query/bool")
    async def take_bool(value: bool) -> None:
        GOT.append(value)

    @app.get("/path/uuid/{value}")
    @app.get("/query/uuid")
    async def take_uuid(value: UUID) -> None:
        GOT.append(value)

    @app.get("/path/date/{value}")
    @app.get("/query/date")
    async def take_date(value: date) -> None:
        GOT.append(value)

    @app.get("/path/datetime/{value}")
    @app.get("/query/datetime")
    async def take_datetime(value: datetime) -> None:
        GOT.append(value)

    @app.get("/path/decimal/{value}")
    @app.get("/query/decimal")
    async def take_decimal(value: Decimal) -> None:
        GOT.append(value)

    @app.get("/path/enum/{value}")
    @app.get("/query/enum")
    async def take_enum(value: Colour) -> None:
        GOT.append(value)

    @app.get("/path/level/{value}")
    @app.get("/query/level")
    async def take_level(value: Level) -> None:
        GOT.append(value)

    @app.get("/path/literal/{value}")
    @app.get("/query/literal")
    async def take_literal(value: Literal["a", "b", 3]) -> None:
        GOT.append(value)

    @app.get("/many/{a}")
    async def many(
        a: int,
        request: Request,
        many: list[Colour],
        none: UUID | None,
        given: list[int] = DEFAULT,
        *,
        last: str = "end",
    ) -> None:
        GOT.extend([a, request.path, many, none, given, last])

    return app


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(build()) as client:
        yield client


@pytest.fixture(autouse=True)
def got() -> list[object]:
    GOT.clear()
    return GOT


@pytest.mark.parametrize(("kind", "text", "value"), CASES)
def test_a_value_is_of_the_declared_type(
    client: TestClient, got: list[object], kind: str, text: str, value: object
) -> None:
    wire = quote(text, safe="")
    for target in (f"/path/{kind}/{wire}", f"/query/{kind}?value={wire}&value=second"):
        assert client.get(target).status_code == 204
    assert got == [value, value]
    assert [type(one) for one in got] == [type(value)] * 2
    if isinstance(value, datetime):
        assert [one.utcoffset() for one in got if isinstance(one, datetime)] == [value.utcoffset()] * 2
    if isinstance(value, Decimal):
        assert [str(one) for one in got] == [str(value)] * 2
    if isinstance(value, Enum):
        assert got[0] is value


def test_what_is_absent_is_the_default_itself(client: TestClient, got: list[object]) -> None:
    assert client.get("/many/1?many=red&many=blue").status_code == 204
    assert got == [1, "/many/1", [Colour.RED, Colour.BLUE], None, DEFAULT, "end"]
    assert got[4] is DEFAULT


def test_every_argument_comes_to_its_own_place(client: TestClient, got: list[object]) -> None:
    target = f"/many/2?last=x&given=1&many=red&none={ID}&given=2"
    assert client.get(target).status_code == 204
    assert got == [2, "/many/2", [Colour.RED], ID, [1, 2], "x"]
