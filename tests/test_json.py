"""The JSON rules of api.md 5.3, through the encoder that every reply uses."""

import json
import re
import sys
import threading
from collections import Counter, OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path, PurePosixPath
from uuid import UUID

import pytest

from oxbrook._core import encode_json
from oxbrook._json import digits, plain

ID = UUID("12345678-1234-5678-1234-567812345678")
INDIA = timezone(timedelta(hours=5, minutes=30))
Point = namedtuple("Point", "x y")


class Colour(Enum):
    RED = "red"
    POINT = (1, 2)


class Level(IntEnum):
    LOW = 1


class Name(StrEnum):
    ADA = "ada"


class Text(str):
    def __str__(self) -> str:
        raise AssertionError("the text itself is written")


class Number(int):
    def __repr__(self) -> str:
        return "hidden"


class Share(float):
    pass


def kind(value: object) -> str:
    """Name a case alike in every process: a repr may hold an address or the order of a set."""
    return type(value).__name__


class Row:
    """Has `keys()` and item access and is no mapping otherwise, like a database row."""

    def keys(self) -> list[str]:
        return ["a", "b"]

    def __getitem__(self, key: str) -> str:
        return key * 2


@dataclass
class Inner:
    at: date


@dataclass(slots=True)
class Outer:
    inner: Inner
    names: list[str] = field(default_factory=list)
    seed: InitVar[int] = 0


def numbers() -> Iterator[int]:
    yield from (1, 2, 3)


CASES: list[tuple[object, str]] = [
    (None, "null"),
    (True, "true"),
    (False, "false"),
    (0, "0"),
    (-7, "-7"),
    (2**63 - 1, "9223372036854775807"),
    (-(2**63), "-9223372036854775808"),
    (2**63, "9223372036854775808"),
    (-(2**200), "-1606938044258990275541962092341162602522202993782792835301376"),
    (Number(3), "3"),
    (1.0, "1.0"),
    (-0.0, "-0.0"),
    (1.5, "1.5"),
    (0.1, "0.1"),
    (Share(2.5), "2.5"),
    (float("nan"), "null"),
    (float("inf"), "null"),
    (float("-inf"), "null"),
    ("", '""'),
    ("plain", '"plain"'),
    ('q"\\/', '"q\\"\\\\/"'),
    ("\x00\x01\x08\t\n\x0b\x0c\r\x1f\x7f", '"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f\x7f"'),
    ("a" * 33 + '"' + "b" * 15 + "\n", '"' + "a" * 33 + '\\"' + "b" * 15 + '\\n"'),
    ("äöü ÿ", '"äöü ÿ"'),
    ("é" * 20 + '"', '"' + "é" * 20 + '\\""'),
    ("Ж中\u2028\n", '"Ж中\u2028\\n"'),
    ('🦀"中a', '"🦀\\"中a"'),
    (Text("shown"), '"shown"'),
    ({}, "{}"),
    ([], "[]"),
    ((), "[]"),
    ([[], {}, [{}]], "[[],{},[{}]]"),
    ({"a": {}, "b": []}, '{"a":{},"b":[]}'),
    ({"a": [1, None, "x"], "b": {"c": 1.0}}, '{"a":[1,null,"x"],"b":{"c":1.0}}'),
    ([","], '[","]'),
    (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
    (defaultdict(int, a=1), '{"a":1}'),
    (Counter("aa"), '{"a":2}'),
    (UserDict(a=1), '{"a":1}'),
    (Row(), '{"a":"aa","b":"bb"}'),
    ((1, "a"), '[1,"a"]'),
    (Point(1, 2), "[1,2]"),
    ({1}, "[1]"),
    (frozenset([2]), "[2]"),
    (deque([1, 2]), "[1,2]"),
    (range(3), "[0,1,2]"),
    (numbers(), "[1,2,3]"),
    ((n for n in ("a",)), '["a"]'),
    (datetime(2026, 1, 2, 10, 0), '"2026-01-02T10:00:00"'),
    (datetime(2026, 1, 2, 10, 0, tzinfo=UTC), '"2026-01-02T10:00:00Z"'),
    (datetime(2026, 1, 2, 10, 0, 0, 4, tzinfo=UTC), '"2026-01-02T10:00:00.000004Z"'),
    (datetime(2026, 1, 2, 10, 0, tzinfo=INDIA), '"2026-01-02T10:00:00+05:30"'),
    (datetime(2026, 1, 2, 10, 0, tzinfo=timezone(-timedelta(hours=3))), '"2026-01-02T10:00:00-03:00"'),
    (date(2026, 1, 2), '"2026-01-02"'),
    (time(10, 0), '"10:00:00"'),
    (time(10, 0, 0, 4), '"10:00:00.000004"'),
    (timedelta(seconds=90), '"PT1M30S"'),
    (timedelta(seconds=-90), '"-PT1M30S"'),
    (timedelta(days=1, seconds=90, microseconds=5), '"P1DT1M30.000005S"'),
    (timedelta(), '"PT0S"'),
    (timedelta(days=400), '"P400D"'),
    (timedelta(hours=1), '"PT1H"'),
    (timedelta(milliseconds=-1500), '"-PT1.5S"'),
    (timedelta(microseconds=10), '"PT0.00001S"'),
    (ID, f'"{ID}"'),
    (Decimal("12.50"), '"12.50"'),
    (Decimal("NaN"), "null"),
    (Decimal("-Infinity"), "null"),
    (Colour.RED, '"red"'),
    (Colour.POINT, "[1,2]"),
    (Level.LOW, "1"),
    (Name.ADA, '"ada"'),
    ([b"caf\xc3\xa9", bytearray(b"x")], '["café","x"]'),
    (Outer(Inner(date(2026, 1, 2)), ["a"]), '{"inner":{"at":"2026-01-02"},"names":["a"]}'),
    (Path("/a/b"), '"/a/b"'),
    (PurePosixPath("c"), '"c"'),
    (ip_address("127.0.0.1"), '"127.0.0.1"'),
    (ip_address("::1"), '"::1"'),
    (ip_network("10.0.0.0/8"), '"10.0.0.0/8"'),
    (ip_interface("10.0.0.1/8"), '"10.0.0.1/8"'),
    (re.compile("a+"), '"a+"'),
    (re.compile(b"a+"), '"a+"'),
]

KEYS: list[tuple[object, str]] = [
    ("a", "a"),
    (Text("b"), "b"),
    (1, "1"),
    (2**70, "1180591620717411303424"),
    (1.5, "1.5"),
    (True, "true"),
    (False, "false"),
    (None, "None"),
    (date(2026, 1, 2), "2026-01-02"),
    (datetime(2026, 1, 2, 10, 0, tzinfo=UTC), "2026-01-02T10:00:00Z"),
    (time(10, 0), "10:00:00"),
    (ID, str(ID)),
    (Colour.RED, "red"),
    (Level.LOW, "1"),
    (Name.ADA, "ada"),
    (Decimal("1.50"), "1.50"),
    (b"k", "k"),
]


@pytest.mark.parametrize(("value", "text"), CASES, ids=kind)
def test_a_value_is_written_as_the_table_says(value: object, text: str) -> None:
    assert encode_json(value).decode() == text


@pytest.mark.parametrize(("key", "text"), KEYS, ids=kind)
def test_an_object_key_is_written_as_its_text(key: object, text: str) -> None:
    assert encode_json({key: [1]}).decode() == f'{{"{text}":[1]}}'


@pytest.mark.parametrize(
    "value",
    [object(), complex(1), memoryview(b"x"), int, dict, print, lambda: None, {}.values(), Ellipsis, sys],
    ids=kind,
)
def test_a_value_without_a_row_is_refused_by_the_name_of_its_type(value: object) -> None:
    for holder in (value, [value], {"a": value}):
        with pytest.raises(TypeError, match=type(value).__qualname__):
            encode_json(holder)


@pytest.mark.parametrize("key", [(1, 2), frozenset([1]), Point(1, 2), Colour.POINT, object()], ids=kind)
def test_a_key_that_is_no_text_is_refused_by_the_name_of_its_type(key: object) -> None:
    with pytest.raises(TypeError, match=type(key).__qualname__):
        encode_json({key: 1})


@pytest.mark.parametrize("value", [b"\xff", bytearray(b"a\xc3"), {b"\xff": 1}], ids=kind)
def test_bytes_that_are_not_utf8_are_refused(value: object) -> None:
    with pytest.raises(UnicodeDecodeError):
        encode_json([value])


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "🦀\ud800", "\udc80" * 20], ids=ascii)
def test_a_lone_surrogate_is_refused_rather_than_written(text: str) -> None:
    for value in (text, [text], {text: 1}):
        with pytest.raises(UnicodeEncodeError, match="surrogates"):
            encode_json(value)


@pytest.mark.parametrize("exponent", [599, 600, 601, 4299, 4300, 5000, 20000])
def test_an_int_is_written_whatever_its_size(exponent: int) -> None:
    for value, text in ((10**exponent, "1" + "0" * exponent), (-(10**exponent - 1), "-" + "9" * exponent)):
        assert encode_json([value]).decode() == f"[{text}]"
        assert digits(value) == text


def test_every_latin1_character_survives_a_round_trip() -> None:
    text = "".join(map(chr, range(256)))
    for start in range(0, 256, 7):
        assert json.loads(encode_json(text[start:])) == text[start:]


def test_floats_survive_a_round_trip() -> None:
    for value in (5e-324, 1.7976931348623157e308, 1e16, 1e-7, 123456789.123, 2**53 + 2.0, 1e22):
        assert json.loads(encode_json(value)) == value


def cyclic_list() -> object:
    value: list[object] = []
    value.append(value)
    return value


def cyclic_dict() -> object:
    value: dict[str, object] = {}
    value["a"] = [value]
    return value


def cyclic_dataclass() -> object:
    value = Inner(date.min)
    value.at = value  # type: ignore[assignment]
    return value


@pytest.mark.parametrize("make", [cyclic_list, cyclic_dict, cyclic_dataclass])
def test_a_structure_that_contains_itself_is_refused(make: object) -> None:
    with pytest.raises(ValueError, match="contains itself"):
        encode_json(make())  # type: ignore[operator]


def test_a_structure_that_is_too_deep_is_refused_on_a_small_stack() -> None:
    class Endless:
        def keys(self) -> list[str]:
            return ["a"]

        def __getitem__(self, key: str) -> object:
            return [Endless()]

    deep: object = []
    for _ in range(100_000):
        deep = [deep]
    deep_key: dict[object, int] = {}
    outcomes: list[BaseException] = []

    def encode() -> None:
        for value in (deep, Endless(), (deep,), {"a": deep}):
            try:
                encode_json(value)
            except ValueError as error:
                outcomes.append(error)
        encode_json(deep_key)

    previous = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=encode)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(previous)
    assert [str(error) for error in outcomes] == ["cannot encode as JSON: nested deeper than 400 levels"] * 4
    # Taken apart by hand: dropping it at once would recurse in the interpreter.
    while deep:
        assert isinstance(deep, list)
        deep = deep.pop()


def test_a_structure_of_ordinary_depth_is_written() -> None:
    value: object = 1
    for _ in range(300):
        value = [value]
    assert encode_json(value) == b"[" * 300 + b"1" + b"]" * 300


def test_an_enum_that_is_its_own_value_ends_in_an_error() -> None:
    class Loop:
        def keys(self) -> list[str]:
            return ["me"]

        def __getitem__(self, key: str) -> object:
            return self

    with pytest.raises(ValueError, match="contains itself"):
        encode_json(Loop())


def test_a_dict_that_changes_size_meanwhile_is_an_error() -> None:
    value: dict[str, object] = {}

    def grow() -> Iterator[int]:
        value["new"] = 1
        yield 1

    value["a"] = grow()
    value["b"] = 2
    with pytest.raises(RuntimeError, match="changed size"):
        encode_json(value)


def test_a_list_emptied_meanwhile_ends_early() -> None:
    value: list[object] = []

    def clear() -> Iterator[int]:
        value.clear()
        yield 1

    value.extend([clear(), "gone", "gone"])
    assert encode_json(value) == b"[[1]]"


def test_an_exception_of_the_values_own_code_passes_through() -> None:
    def fail() -> Iterator[int]:
        yield 1
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        encode_json({"a": fail()})


def test_containers_shared_by_threads_that_change_them_never_crash() -> None:
    shared: dict[str, list[object]] = {str(n): [n, "x" * n] for n in range(50)}
    stop = threading.Event()

    def change() -> None:
        n = 0
        while not stop.is_set():
            shared[str(n % 100)] = [n, {"k": [n]}]
            shared.pop(str((n + 50) % 100), None)
            for items in list(shared.values()):
                items.append(n)
                del items[3:]
            n += 1

    threads = [threading.Thread(target=change) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2000):
            try:
                json.loads(encode_json(shared))
            except RuntimeError as error:
                assert "changed size" in str(error)  # noqa: PT017 - both ends are right
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_encoding_leaves_reference_counts_as_they_were() -> None:
    inner: list[object] = ["x", date(2026, 1, 2), {"k": ID}]
    value: dict[object, object] = {"a": inner, ID: inner, 2**70: (inner, inner)}
    encode_json(value)
    before = [sys.getrefcount(item) for item in (inner, value, ID)]
    for _ in range(100):
        encode_json(value)
        with pytest.raises(TypeError):
            encode_json([value, object()])
    assert [sys.getrefcount(item) for item in (inner, value, ID)] == before


def test_plain_takes_one_level_only() -> None:
    assert plain(Outer(Inner(date.min))) == {"inner": Inner(date.min), "names": []}


class TestModels:
    """pydantic's models, at any depth: their own serialisation."""

    def test_a_model_is_written_by_its_own_serialiser(self) -> None:
        pydantic = pytest.importorskip("pydantic")

        class Item(pydantic.BaseModel):  # type: ignore[misc, name-defined]
            name: str
            at: datetime
            price: Decimal
            share: float

        item = Item(name="é", at=datetime(2026, 1, 2, tzinfo=UTC), price=Decimal("1.50"), share=float("nan"))
        text = '{"name":"é","at":"2026-01-02T00:00:00Z","price":"1.50","share":null}'
        assert encode_json(item).decode() == text
        assert encode_json({"items": [item, (item,)]}).decode() == f'{{"items":[{text},[{text}]]}}'
        assert encode_json(item) == item.model_dump_json().encode()

    def test_an_overridden_model_dump_json_is_used(self) -> None:
        pydantic = pytest.importorskip("pydantic")

        class Masked(pydantic.BaseModel):  # type: ignore[misc, name-defined]
            secret: str

            def model_dump_json(self, **options: object) -> str:
                return '{"secret":"***"}'

        assert encode_json([Masked(secret="x")]) == b'[{"secret":"***"}]'

    def test_root_models_and_pydantic_dataclasses_are_written(self) -> None:
        pydantic = pytest.importorskip("pydantic")
        dataclasses = pytest.importorskip("pydantic.dataclasses")
        assert encode_json(pydantic.RootModel[list[int]]([1, 2])) == b"[1,2]"

        @dataclasses.dataclass
        class Pair:
            left: int
            right: date

        pair = Pair(1, date(2026, 1, 2))  # type: ignore[call-arg]
        assert encode_json(pair) == b'{"left":1,"right":"2026-01-02"}'

    def test_a_model_as_a_key_is_refused(self) -> None:
        pydantic = pytest.importorskip("pydantic")

        class Key(pydantic.BaseModel):  # type: ignore[misc, name-defined]
            model_config = pydantic.ConfigDict(frozen=True)
            n: int

        with pytest.raises(TypeError, match="Key"):
            encode_json({Key(n=1): 1})
