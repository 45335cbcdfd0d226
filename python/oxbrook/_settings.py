"""`Settings`: a program's settings, read from the environment and from files of secrets (api.md 18.1).

Invariant: no text of an error holds a value, since any value may be a secret.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import json
import os
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, TypedDict, get_args, get_origin

from pydantic import BaseModel, ConfigDict, SecretBytes, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from oxbrook._settings_error import SettingsError

INHERITED: Final[Any] = object()
REQUIRED: Final = "required, and not set"
LISTS: Final = (list, tuple, set, frozenset)
MAPPINGS: Final = (dict, collections.abc.Mapping, collections.abc.MutableMapping)

Source = Literal["environment", "secrets file", "default"]


class Variable(TypedDict):
    """One variable of a class of settings, as `variables()` lists it."""

    variable: str
    field: str
    type: str
    required: bool
    secret: bool
    default: object
    source: Source | None


class Settings(BaseModel):
    """Base of a class of settings: each field is read from the variable `prefix` + its name, in upper case.

    An argument of the constructor comes before the environment, that before a file in `secrets_dir` that is
    named as the variable or its lower case, that before the default. Both options are inherited.

    Raises: SettingsError, on construction, for everything that is missing or invalid.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    _prefix: ClassVar[str] = ""
    _secrets_dir: ClassVar[Path | None] = None

    def __init_subclass__(
        cls,
        *,
        prefix: str = INHERITED,
        secrets_dir: str | os.PathLike[str] | None = INHERITED,
        **options: Any,
    ) -> None:
        super().__init_subclass__(**options)
        if prefix is not INHERITED:
            if not isinstance(prefix, str):
                raise TypeError(f"prefix is text, not {type(prefix).__name__}")
            cls._prefix = prefix
        if secrets_dir is not INHERITED:
            cls._secrets_dir = None if secrets_dir is None else Path(secrets_dir)

    @classmethod
    def __pydantic_init_subclass__(cls, **_options: Any) -> None:
        fields: dict[str, str] = {}
        for name, field in cls.model_fields.items():
            if field.validation_alias is not None and not isinstance(field.validation_alias, str):
                raise TypeError(f"{cls.__name__}.{name}: the alias of a setting is one name")
            variable = variable_of(cls, name, field)
            if variable in fields:
                raise ValueError(
                    f"{cls.__name__}: {fields[variable]} and {name} are both read from {variable}"
                )
            fields[variable] = name

    def __init__(self, **given: Any) -> None:
        raw, problems = self._read(given)
        invalid: ValidationError | None = None
        try:
            super().__init__(**raw)
        except ValidationError as error:
            invalid = error
        # Out of the handler: what it caught shows values, and would be the context of what is raised.
        if invalid is not None:
            problems = {**problems_of(type(self), invalid), **problems}
        if problems:
            raise SettingsError(type(self), problems)

    @classmethod
    def _read(cls, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return what was found for each field, by the name pydantic takes, and what was wrong with it."""
        values: dict[str, Any] = {}
        problems: dict[str, str] = {}
        left = dict(given)
        for name, field in cls.model_fields.items():
            key = field.validation_alias if isinstance(field.validation_alias, str) else name
            names = [one for one in dict.fromkeys((name, key)) if one in left]
            if names:
                values[key] = left.pop(names[0])
                continue
            variable = variable_of(cls, name, field)
            try:
                text, _source = find(variable, cls._secrets_dir)
                if text is not None:
                    values[key] = parsed(text, field.annotation)
            except Unreadable as error:
                problems[variable] = str(error)
        if left:
            raise TypeError(f"{cls.__name__} has no setting {', '.join(sorted(left))}")
        return values, problems

    @classmethod
    def variables(cls) -> list[Variable]:
        """List the variables of this class, in the order of its fields, and where each is read from now."""
        return [described(cls, name, field) for name, field in cls.model_fields.items()]


class Unreadable(Exception):
    """A text that is no value; says why, without the text."""


def variable_of(cls: type[Settings], name: str, field: FieldInfo) -> str:
    """Return the variable of a field."""
    if isinstance(field.validation_alias, str):
        return field.validation_alias
    return (cls._prefix + name).upper()


def find(variable: str, secrets_dir: Path | None) -> tuple[str | None, Source | None]:
    """Return the text of a variable and where it stands; None twice where it is not set.

    Raises: Unreadable for a file that cannot be read.
    """
    text = os.environ.get(variable)
    if text is not None:
        return text, "environment"
    for name in dict.fromkeys((variable, variable.lower())) if secrets_dir is not None else ():
        path = Path(secrets_dir or ".", name)
        try:
            text = path.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise Unreadable(f"its secrets file cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise Unreadable("its secrets file is not UTF-8") from None
        return text.removesuffix("\n").removesuffix("\r"), "secrets file"
    return None, None


def parsed(text: str, annotation: Any) -> Any:
    """Return the text as pydantic shall get it: items of a list, what JSON says, or the text itself.

    Raises: Unreadable.
    """
    kinds = {kind_of(each) for each in alternatives(annotation)}
    if "list" in kinds and not text.lstrip().startswith("["):
        return [item for part in text.split(",") if (item := part.strip())]
    if kinds.isdisjoint(("list", "json")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if "scalar" in kinds:
            return text
        raise Unreadable("not valid JSON") from None


def alternatives(annotation: Any) -> Iterator[Any]:
    """Give the members of a union, or the annotation itself; None is left out."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from alternatives(get_args(annotation)[0])
    elif origin is typing.Union or origin is types.UnionType:
        for each in get_args(annotation):
            yield from alternatives(each)
    elif annotation is not type(None):
        yield annotation


def kind_of(annotation: Any) -> str:
    """Return how a text becomes a value of this type."""
    cls = get_origin(annotation) or annotation
    if not isinstance(cls, type):
        return "scalar"
    if issubclass(cls, LISTS):
        return "list"
    is_json = issubclass(cls, (BaseModel, *MAPPINGS)) or dataclasses.is_dataclass(cls)
    return "json" if is_json else "scalar"


def problems_of(cls: type[Settings], error: ValidationError) -> dict[str, str]:
    """Say of each variable what pydantic found, without a value."""
    variables = {
        key: variable_of(cls, name, field)
        for name, field in cls.model_fields.items()
        for key in (name, field.validation_alias)
        if isinstance(key, str)
    }
    problems: dict[str, str] = {}
    for each in error.errors(include_url=False):
        place = each["loc"]
        variable = variables.get(str(place[0])) if place else None
        text = each["msg"]
        if each["type"] == "missing" and len(place) == 1:
            text = REQUIRED
        elif each["type"] in ("value_error", "assertion_error"):
            # The words are the program's, and may quote what it was given.
            text = masked(text, each["input"])
        inner = ".".join(str(part) for part in place[1:])
        text = f"{inner}: {text}" if inner else text
        name = variable or cls.__name__
        problems[name] = f"{problems[name]}; {text}" if name in problems else text
    return problems


def masked(text: str, value: object) -> str:
    """Return a text without what is in a value."""
    if isinstance(value, (SecretStr, SecretBytes)):
        value = value.get_secret_value()
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, collections.abc.Mapping):
        parts = list(value.values())
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = list(value)
    elif isinstance(value, BaseModel):
        parts = [inner for _, inner in value]
    else:
        return text.replace(str(value), "***") if str(value) else text
    for part in parts:
        text = masked(text, part)
    return text


class Default(NamedTuple):
    """A field's default as it may be shown."""

    value: object
    is_shown: bool


def described(cls: type[Settings], name: str, field: FieldInfo) -> Variable:
    """Describe the variable of one field."""
    variable = variable_of(cls, name, field)
    try:
        _text, source = find(variable, cls._secrets_dir)
    except Unreadable:
        source = "secrets file"
    required = field.is_required()
    return {
        "variable": variable,
        "field": name,
        "type": shown(field.annotation),
        "required": required,
        "secret": is_secret(field.annotation),
        "default": default_of(field).value,
        "source": source or (None if required else "default"),
    }


def default_of(field: FieldInfo) -> Default:
    """Return the default of a field; not that of a secret, one that is made, or one without a JSON form."""
    if field.default is PydanticUndefined or is_secret(field.annotation):
        return Default(None, False)
    try:
        return Default(to_jsonable_python(field.default), True)
    except ValueError:
        return Default(None, False)


def is_secret(annotation: Any) -> bool:
    """Whether a type is a secret, or holds one."""
    if isinstance(annotation, type) and issubclass(annotation, (SecretStr, SecretBytes)):
        return True
    return any(is_secret(each) for each in get_args(annotation))


def shown(annotation: Any) -> str:
    """Write a type the way it is written in code."""
    if annotation is None or annotation is type(None):
        return "None"
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is typing.Union or origin is types.UnionType:
        return " | ".join(shown(each) for each in arguments)
    if origin is Annotated:
        return shown(arguments[0])
    if origin is Literal:
        return f"Literal[{', '.join(repr(each) for each in arguments)}]"
    if isinstance(origin, type) and arguments:
        inner = ", ".join("..." if each is ... else shown(each) for each in arguments)
        return f"{origin.__name__}[{inner}]"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def classes() -> list[type[Settings]]:
    """Return every class of settings that has fields, bases before what is derived from them."""
    found: dict[type[Settings], None] = {}
    waiting: list[type[Settings]] = [Settings]
    while waiting:
        for cls in waiting.pop(0).__subclasses__():
            if cls not in found:
                found[cls] = None
                waiting.append(cls)
    return [cls for cls in found if cls.model_fields]
