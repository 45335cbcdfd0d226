"""Values without a JSON form of their own, one level at a time (api.md 5.3).

The encoder is Rust (`crates/oxb-py/src/json.rs`); it writes `None bool int float str dict list tuple`
and asks `plain` for everything else.

Invariant: `plain` runs no encoder and does not recurse, and it never imports pydantic: an instance
of a model cannot exist before somebody else has.
"""

import dataclasses
import sys
from collections import deque
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from pathlib import PurePath
from re import Pattern
from types import GeneratorType
from typing import TYPE_CHECKING, Final, cast
from uuid import UUID

if TYPE_CHECKING:
    from pydantic import BaseModel

ADDRESSES: Final = (
    IPv4Address,
    IPv6Address,
    IPv4Network,
    IPv6Network,
    IPv4Interface,
    IPv6Interface,
)
# The interpreter refuses `str` of longer integers (4300 digits by default, never under 640).
BLOCK_DIGITS: Final = 600


def plain(value: object) -> object:
    """Take one level off a value that is not of an exact plain type.

    Returns: a value nearer to a plain type, whose parts may be anything; `bytes` are the finished
        JSON text of a model.
    Raises: TypeError naming the type, when it has no JSON form; UnicodeDecodeError for bytes that
        are not UTF-8.
    """
    convert = CONVERTERS.get(type(value))
    if convert is not None:
        return convert(value)
    if isinstance(value, Enum):
        return value.value
    base_model = loaded_base_model()
    if base_model is not None and isinstance(value, base_model):
        return model_json(value, base_model)
    for known, convert in SUBCLASSES:
        if isinstance(value, known):
            return convert(value)
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        return {name: getattr(value, name) for name in field_names(kind)}
    if hasattr(kind, "keys") and hasattr(kind, "__getitem__"):
        return dict(cast("dict[object, object]", value))
    raise TypeError(f"cannot encode as JSON: a value of type {kind.__module__}.{kind.__qualname__}")


def digits(value: int) -> str:
    """The decimal digits of an integer of any size, past the interpreter's limit on `str(int)`."""
    if value < 0:
        return "-" + digits(-value)
    if value < 10**BLOCK_DIGITS:
        return str(value)
    # Half the digits, rounded up to blocks: bit_length * log10(2) is how many there are.
    half = int(value.bit_length() * 0.30103 / 2) // BLOCK_DIGITS * BLOCK_DIGITS or BLOCK_DIGITS
    head, tail = divmod(value, 10**half)
    return digits(head) + digits(tail).rjust(half, "0")


def loaded_base_model() -> "type[BaseModel] | None":
    """pydantic's `BaseModel`, if some module has imported it."""
    return getattr(sys.modules.get("pydantic.main"), "BaseModel", None)


def model_json(value: "BaseModel", base_model: "type[BaseModel]") -> bytes:
    """The model's own serialisation, as JSON text.

    A class that overrides `model_dump_json` is asked through it; for any other the serialiser
    behind that method is called directly, which gives the same text for less.
    """
    if type(value).model_dump_json is base_model.model_dump_json:
        return value.__pydantic_serializer__.to_json(value)
    return value.model_dump_json().encode()


def is_usual_model(kind: type) -> bool:
    """Whether values of this class are models that `model_json` asks the serialiser of."""
    base_model = loaded_base_model()
    return (
        base_model is not None
        and issubclass(kind, base_model)
        and kind.model_dump_json is base_model.model_dump_json
    )


@lru_cache(maxsize=512)
def field_names(kind: type) -> tuple[str, ...]:
    """Names of a dataclass's fields, in order."""
    return tuple(field.name for field in dataclasses.fields(kind))


def from_bytes(value: bytes | bytearray) -> str:
    return value.decode()


def from_decimal(value: Decimal) -> str | None:
    return Decimal.__str__(value) if value.is_finite() else None


def from_datetime(value: datetime) -> str:
    text = datetime.isoformat(value)
    return text[:-6] + "Z" if text.endswith("+00:00") and value.tzinfo is not None else text


def from_timedelta(value: timedelta) -> str:
    """ISO 8601 duration in days, hours, minutes and seconds, without the parts that are zero."""
    sign = ""
    if value < timedelta():
        sign, value = "-", -value
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours}H" * bool(hours) + f"{minutes}M" * bool(minutes)
    if value.microseconds:
        clock += f"{seconds}.{value.microseconds:06}".rstrip("0") + "S"
    elif seconds:
        clock += f"{seconds}S"
    days = f"{value.days}D" * bool(value.days)
    if not days and not clock:
        clock = "0S"
    return f"{sign}P{days}" + f"T{clock}" * bool(clock)


def from_pattern(value: "Pattern[str] | Pattern[bytes]") -> str | bytes:
    return value.pattern if isinstance(value.pattern, str) else value.pattern.decode()


def from_iterable(value: Iterable[object]) -> list[object]:
    return list(value)


# What a subclass of a known type is taken as, the first that fits. A subclass is read through the
# methods of the type it derives from, so that it cannot hand back itself.
SUBCLASSES: Final[tuple[tuple[type | tuple[type, ...], Callable[..., object]], ...]] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    ((bytes, bytearray), from_bytes),
    (dict, dict),
    ((list, tuple, set, frozenset, deque), from_iterable),
    (datetime, from_datetime),
    (date, date.isoformat),
    (time, time.isoformat),
    (timedelta, from_timedelta),
    (UUID, UUID.__str__),
    (Decimal, from_decimal),
    (PurePath, str),
    (ADDRESSES, str),
)

CONVERTERS: Final[dict[type, Callable[..., object]]] = {
    bytes: from_bytes,
    bytearray: from_bytes,
    set: from_iterable,
    frozenset: from_iterable,
    deque: from_iterable,
    range: from_iterable,
    GeneratorType: from_iterable,
    datetime: from_datetime,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: from_timedelta,
    UUID: UUID.__str__,
    Decimal: from_decimal,
    Pattern: from_pattern,
}
