"""`Settings` and `oxbrook settings` (api.md 18.1 and 18.2)."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    Field,
    SecretBytes,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from oxbrook import Settings, SettingsError
from tests.support import Command

Run = Callable[..., Command]
Env = pytest.MonkeyPatch


def read(cls: Any, **given: object) -> Any:
    """Make settings: a type checker takes what is in the environment for missing."""
    return cls(**given)


class Point(BaseModel):
    x: int
    y: int = 0


@dataclass
class Pair:
    a: int
    b: str


class Many(Settings, prefix="many_"):
    port: int = 8000
    debug: bool = False
    ratio: float = 1.0
    name: str | None = None
    hosts: list[str] = Field([])
    ports: tuple[int, ...] = ()
    tags: set[str] = Field(set())
    kept: Optional[frozenset[int]] = None  # noqa: UP045
    limits: dict[str, int] = Field({})
    point: Point | None = None
    pair: Pair | None = None
    level: Literal["info", "debug"] = "info"
    either: dict[str, int] | str = ""
    exact: str = Field("", alias="Exact_Name")
    bounded: Annotated[int, Field(ge=1)] = 1


VALUES: list[tuple[str, str, str, object]] = [
    ("MANY_PORT", "80", "port", 80),
    ("MANY_DEBUG", "true", "debug", True),
    ("MANY_RATIO", "0.5", "ratio", 0.5),
    ("MANY_NAME", "", "name", ""),
    ("MANY_NAME", "[1]", "name", "[1]"),
    ("MANY_HOSTS", "a, b ,,c,", "hosts", ["a", "b", "c"]),
    ("MANY_HOSTS", "", "hosts", []),
    ("MANY_HOSTS", ' ["a,b"]', "hosts", ["a,b"]),
    ("MANY_PORTS", "1,2", "ports", (1, 2)),
    ("MANY_TAGS", "a,a", "tags", {"a"}),
    ("MANY_KEPT", "[1, 2]", "kept", frozenset({1, 2})),
    ("MANY_LIMITS", '{"a": 1}', "limits", {"a": 1}),
    ("MANY_POINT", '{"x": 1}', "point", Point(x=1)),
    ("MANY_PAIR", '{"a": 1, "b": "c"}', "pair", Pair(1, "c")),
    ("MANY_LEVEL", "debug", "level", "debug"),
    ("MANY_EITHER", "words", "either", "words"),
    ("MANY_EITHER", '{"a": 1}', "either", {"a": 1}),
    ("Exact_Name", "x", "exact", "x"),
    ("MANY_BOUNDED", "2", "bounded", 2),
]


@pytest.mark.parametrize(("variable", "text", "field", "value"), VALUES)
def test_a_field_is_read_from_its_variable(
    monkeypatch: Env, variable: str, text: str, field: str, value: object
) -> None:
    monkeypatch.setenv(variable, text)
    assert getattr(read(Many), field) == value


def test_what_is_set_elsewhere_is_not_read(monkeypatch: Env) -> None:
    for name in ("PORT", "many_port", "MANY_EXACT", "EXACT_NAME"):
        monkeypatch.setenv(name, "1")
    assert read(Many) == read(Many, port=8000, exact="")


BAD: list[tuple[str, str, str]] = [
    ("MANY_PORT", "eighty", "Input should be a valid integer"),
    ("MANY_LIMITS", "{'a': 1}", "not valid JSON"),
    ("MANY_LIMITS", '{"a": "sekret"}', "a: Input should be a valid integer"),
    ("MANY_HOSTS", "[1", "not valid JSON"),
    ("MANY_PORTS", "1,sekret", "1: Input should be a valid integer"),
    ("MANY_POINT", "[" * 100_000, "not valid JSON"),
    ("MANY_POINT", '{"y": 1}', "x: Field required"),
    ("MANY_LEVEL", "sekret", "Input should be 'info' or 'debug'"),
    ("MANY_BOUNDED", "0", "Input should be greater than or equal to 1"),
]


@pytest.mark.parametrize(("variable", "text", "problem"), BAD)
def test_what_is_no_value_is_named_without_being_shown(
    monkeypatch: Env, variable: str, text: str, problem: str
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(SettingsError) as raised:
        read(Many)
    error = raised.value
    assert error.settings is Many
    assert list(error.problems) == [variable]
    assert error.problems[variable].startswith(problem)
    first, *lines = str(error).split("\n")
    assert first == "Many cannot be read from the environment:"
    assert lines == [f"  {variable}: {error.problems[variable]}"]
    printed = "".join(traceback.format_exception(error))
    assert "sekret" not in printed
    assert "eighty" not in printed
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_everything_that_is_wrong_is_said_at_once(monkeypatch: Env) -> None:
    class Config(Settings, prefix="BAD_"):
        one: int
        two: dict[str, int]
        three: SecretStr

        @field_validator("three")
        @classmethod
        def long_enough(cls, value: SecretStr) -> SecretStr:
            if len(value.get_secret_value()) < 20:
                raise ValueError(f"{value.get_secret_value()} is too short")
            return value

    monkeypatch.setenv("BAD_TWO", "no")
    monkeypatch.setenv("BAD_THREE", "sekret")
    with pytest.raises(SettingsError) as raised:
        read(Config)
    assert raised.value.problems == {
        "BAD_ONE": "required, and not set",
        "BAD_THREE": "Value error, *** is too short",
        "BAD_TWO": "not valid JSON",
    }
    assert isinstance(raised.value, ValueError)


def test_what_is_wrong_with_several_together_is_said_of_the_class(monkeypatch: Env) -> None:
    class Range(Settings, prefix="RANGE_"):
        low: int = 0
        high: int = 10

        @model_validator(mode="after")
        def ordered(self) -> Range:
            if self.low > self.high:
                raise ValueError(f"low {self.low} is above high")
            return self

    monkeypatch.setenv("RANGE_LOW", "777")
    with pytest.raises(SettingsError) as raised:
        read(Range)
    assert raised.value.problems == {"Range": "Value error, low *** is above high"}


def test_an_argument_comes_before_the_environment_that_before_a_file_that_before_the_default(
    monkeypatch: Env, tmp_path: Path
) -> None:
    class Config(Settings, prefix="ORDER_", secrets_dir=tmp_path):
        key: str = "default"

    (tmp_path / "elsewhere").write_text("x")
    assert read(Config).key == "default"
    (tmp_path / "order_key").write_text("lower\n")
    assert read(Config).key == "lower"
    (tmp_path / "ORDER_KEY").write_text("file\n\n")
    assert read(Config).key == "file\n"
    monkeypatch.setenv("ORDER_KEY", "environment")
    assert read(Config).key == "environment"
    assert Config(key="argument").key == "argument"
    with pytest.raises(TypeError, match="Config has no setting other"):
        read(Config, other=1)


def test_a_secrets_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    class Config(Settings, prefix="FILES_", secrets_dir=tmp_path):
        latin: str = ""
        folder: str = ""

    (tmp_path / "FILES_LATIN").write_bytes(b"\xe9")
    (tmp_path / "FILES_FOLDER").mkdir()
    with pytest.raises(SettingsError) as raised:
        read(Config)
    assert raised.value.problems == {
        "FILES_LATIN": "its secrets file is not UTF-8",
        "FILES_FOLDER": "its secrets file cannot be read: Is a directory",
    }
    assert [variable["source"] for variable in Config.variables()] == ["secrets file", "secrets file"]

    class Nowhere(Settings, secrets_dir=tmp_path / "none"):
        nowhere: str = "default"

    assert Nowhere().nowhere == "default"


def test_prefix_and_directory_are_inherited_unless_restated(monkeypatch: Env, tmp_path: Path) -> None:
    class Base(Settings, prefix="BASE_", secrets_dir=tmp_path):
        key: str = "default"

    class Same(Base):
        other: str = "default"

    class Restated(Base, prefix="", secrets_dir=None):
        pass

    (tmp_path / "base_key").write_text("secret")
    (tmp_path / "key").write_text("not read")
    monkeypatch.setenv("BASE_OTHER", "set")
    assert (Same().key, Same().other) == ("secret", "set")
    assert Restated().key == "default"


def test_settings_cannot_change() -> None:
    config = read(Many)
    with pytest.raises(ValidationError):
        config.port = 1


def test_a_class_that_cannot_work_is_refused_where_it_stands() -> None:
    with pytest.raises(TypeError, match="prefix is text, not int"):

        class Number(Settings, prefix=1):
            pass

    with pytest.raises(ValueError, match="a and b are both read from B"):

        class Twice(Settings):
            a: int = Field(1, alias="B")
            b: int = 1

    with pytest.raises(TypeError, match=r"Chosen\.a: the alias of a setting is one name"):

        class Chosen(Settings):
            a: int = Field(1, validation_alias=AliasChoices("A", "B"))


def test_the_variables_of_a_class(monkeypatch: Env, tmp_path: Path) -> None:
    class Listed(Settings, prefix="LISTED_", secrets_dir=tmp_path):
        url: str
        port: int = 8000
        key: SecretStr = SecretStr("hidden")
        keys: list[SecretBytes] | None = None
        paths: dict[str, tuple[int, ...]] = Field(default_factory=dict)
        level: Annotated[Literal["a", "b"], "note"] = "a"
        where: Path = Path("/tmp")

    monkeypatch.setenv("LISTED_PORT", "1")
    (tmp_path / "LISTED_KEYS").write_text("[]")
    columns = ("variable", "field", "type", "required", "secret", "default", "source")
    assert [tuple(row[name] for name in columns) for row in map(dict, Listed.variables())] == [
        ("LISTED_URL", "url", "str", True, False, None, None),
        ("LISTED_PORT", "port", "int", False, False, 8000, "environment"),
        ("LISTED_KEY", "key", "SecretStr", False, True, None, "default"),
        ("LISTED_KEYS", "keys", "list[SecretBytes] | None", False, True, None, "secrets file"),
        ("LISTED_PATHS", "paths", "dict[str, tuple[int, ...]]", False, False, None, "default"),
        ("LISTED_LEVEL", "level", "Literal['a', 'b']", False, False, "a", "default"),
        ("LISTED_WHERE", "where", "Path", False, False, "/tmp", "default"),
    ]


APP = """
    from pydantic import SecretStr

    from oxbrook import App, Settings


    class Database(Settings, prefix="DB_", secrets_dir="secrets"):
        url: str
        size: int = 5
        password: SecretStr = SecretStr("hidden")
        token: str = ""
        made: list[str] = []


    class Empty(Settings):
        pass


    database = Database()
    app = App()
"""


def test_the_command_lists_what_an_app_reads(run: Run, write: Callable[[str, str], Path]) -> None:
    write("main.py", APP)
    write("secrets/DB_TOKEN", "sekret")
    listed = run("settings", "main:app", environ={"DB_SIZE": "many"})
    assert listed.ended() == 0
    assert [line.split(None, 2) for line in listed.out.lines] == [
        ["Database"],
        ["VARIABLE", "TYPE", "STATUS"],
        ["DB_URL", "str", "required, and not set"],
        ["DB_SIZE", "int", "Input should be a valid integer, unable to parse string as an integer"],
        ["DB_PASSWORD", "SecretStr", "default"],
        ["DB_TOKEN", "str", "set (secrets file)"],
        ["DB_MADE", "list[str]", "default []"],
    ]
    assert "sekret" not in listed.out.text
    listed = run("settings", "main", "--json", environ={"DB_URL": "x"})
    assert listed.ended() == 0
    [described] = json.loads(listed.out.text)
    assert described["settings"] == "Database"
    assert described["variables"][0] == {
        "variable": "DB_URL",
        "field": "url",
        "type": "str",
        "required": True,
        "secret": False,
        "default": None,
        "source": "environment",
        "problem": None,
    }


def test_other_commands_end_with_the_usage_status(run: Run, write: Callable[[str, str], Path]) -> None:
    write("main.py", APP)
    for command in (["run", "--port", "0"], ["routes", "main"], ["openapi", "main"]):
        refused = run(*command)
        assert refused.ended() == 2
        assert refused.err.lines == [
            "oxbrook: error: Database cannot be read from the environment:",
            "  DB_URL: required, and not set",
        ]


def test_an_app_without_settings_and_a_module_that_is_missing(
    run: Run, write: Callable[[str, str], Path]
) -> None:
    write("main.py", "from oxbrook import App\napp = App()\n")
    listed = run("settings", "main")
    assert (listed.ended(), listed.out.text) == (0, "no Settings classes found")
    listed = run("settings", "main", "--json")
    assert (listed.ended(), listed.out.text) == (0, "[]")
    refused = run("settings", "nothing")
    assert (refused.ended(), refused.err.text) == (2, "oxbrook: error: no module named 'nothing'")


def test_without_pydantic_the_class_is_there_and_cannot_be_subclassed() -> None:
    program = """
import sys
sys.modules["pydantic"] = None
import oxbrook
from oxbrook import Settings, SettingsError
try:
    class Config(Settings, prefix="X"):
        pass
except ModuleNotFoundError as error:
    print(error.name, error)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout == "pydantic oxbrook.Settings needs pydantic, which is not installed\n"


def test_a_program_that_uses_no_settings_imports_no_pydantic() -> None:
    program = "import sys, oxbrook; oxbrook.SettingsError; print('pydantic' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout == "False\n"
