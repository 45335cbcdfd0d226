"""Forms: `Form` as a parameter's default, `FormData` and `UploadFile` (api.md 4.3).

Bodies are parsed in Rust; here their parts get names and become what a model declares.

Invariant: both encodings of a form give the same `FormData`, and the same errors.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

from oxbrook import _core
from oxbrook._annotations import bare
from oxbrook._errors import RequestValidationError

if TYPE_CHECKING:
    from pydantic import ValidationError

    from oxbrook._core import Request

MAX_PARTS: Final = 1000


@dataclass(frozen=True, slots=True)
class UploadFile:
    """A file of a form, in memory; `filename` and `content_type` are what the client says of it."""

    name: str
    filename: str
    content_type: str | None = None
    data: bytes = field(default=b"", repr=False)

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.data)

    def read(self) -> bytes:
        """Return the whole file; not awaited."""
        return self.data

    def text(self, encoding: str = "utf-8") -> str:
        """Decode the file; what is no text in that encoding becomes replacement characters."""
        return self.data.decode(encoding, "replace")

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
        from pydantic_core import core_schema

        return core_schema.is_instance_schema(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: object, _handler: object) -> dict[str, str]:
        return {"type": "string", "format": "binary"}


class FormData(Mapping[str, str | UploadFile]):
    """The values of a form, read-only: by name the first one, in the order they came."""

    __slots__ = ("_items", "_values")

    def __init__(self, items: list[tuple[str, str | UploadFile]]) -> None:
        self._items = items
        self._values: dict[str, list[str | UploadFile]] = {}
        for name, value in items:
            self._values.setdefault(name, []).append(value)

    def __getitem__(self, name: str) -> str | UploadFile:
        return self._values[name][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"FormData({self._items!r})"

    def getlist(self, name: str) -> list[str | UploadFile]:
        """Return every value of a name, a new list."""
        return list(self._values.get(name, ()))

    def multi_items(self) -> list[tuple[str, str | UploadFile]]:
        """Return every `(name, value)`, a new list."""
        return list(self._items)

    @property
    def files(self) -> list[UploadFile]:
        """The files among the values, a new list."""
        return [value for _, value in self._items if isinstance(value, UploadFile)]


@dataclass(frozen=True, slots=True)
class FormDefault:
    """What `Form` returns: a declaration, read once at registration."""

    max_parts: int

    def __repr__(self) -> str:
        return f"Form(max_parts={self.max_parts})"


def Form(*, max_parts: int = MAX_PARTS) -> Any:
    """As the default of a parameter annotated with a model: the body is a form, validated into that model.

    Typed as anything, so that it may be the default of any model.

    Raises: ValueError for fewer than one part.
    """
    check_parts(max_parts)
    return FormDefault(max_parts)


def check_parts(max_parts: object) -> None:
    """Refuse a limit that no form could meet."""
    if isinstance(max_parts, bool) or not isinstance(max_parts, int) or max_parts < 1:
        raise ValueError(f"max_parts must be an int of at least 1, not {max_parts!r}")


def form_of(request: Request, max_parts: int) -> FormData:
    """Parse the body of a request.

    Raises: HTTPError 415 for another content type, 400 for a malformed body, 413 for more than `max_parts`
        parts; ValueError for a `max_parts` below 1.
    """
    check_parts(max_parts)
    items: list[tuple[str, str | UploadFile]] = []
    for part in _core.parse_form(request, max_parts):
        if len(part) == 2:
            items.append(part)
        else:
            items.append((part[0], UploadFile(*part)))
    return FormData(items)


def form_reader(model: Any, max_parts: int) -> Callable[[Request], Any]:
    """Return what makes a model of the form in the body of a request.

    Raises: from it RequestValidationError, when the form is not one, and what `form_of` raises.
    """
    from pydantic import ValidationError

    lists = list_names(model)
    validate = model.model_validate

    def read(request: Request) -> Any:
        form = form_of(request, max_parts)
        values = {name: form.getlist(name) if name in lists else form[name] for name in form}
        try:
            return validate(values)
        except ValidationError as error:
            raise refusal(error) from None

    return read


def list_names(model: Any) -> frozenset[str]:
    """Return the names in a form, alias and own, of the fields that collect every value."""
    names: set[str] = set()
    for name, info in model.model_fields.items():
        if is_list(info.annotation):
            names.add(name)
            alias = info.validation_alias or info.alias
            choices = getattr(alias, "choices", [alias])
            names.update(choice for choice in choices if isinstance(choice, str))
    return frozenset(names)


def is_list(annotation: object) -> bool:
    """Whether it is `list[T]` or `list[T] | None`."""
    annotation = bare(annotation)
    if get_origin(annotation) in (typing.Union, types.UnionType):
        others = [part for part in get_args(annotation) if part is not types.NoneType]
        return len(others) == 1 and is_list(others[0])
    return annotation is list or get_origin(annotation) is list


def has_file(model: Any) -> bool:
    """Whether a field of a model is a file, or holds some."""
    return any(mentions_file(info.annotation) for info in model.model_fields.values())


def mentions_file(annotation: object) -> bool:
    """Whether `UploadFile` is an annotation or stands in one."""
    return annotation is UploadFile or any(mentions_file(part) for part in get_args(annotation))


def refusal(error: ValidationError) -> RequestValidationError:
    """Return the 422 for what pydantic found; a file among its inputs is shown by its filename."""
    described: list[dict[str, Any]] = json.loads(error.json(include_input=False))
    errors = []
    for one, full in zip(described, error.errors(include_url=False, include_context=False), strict=True):
        first = {key: one.pop(key) for key in ("type", "loc", "msg")}
        errors.append({**first, "input": shown(full["input"]), **one})
    return RequestValidationError(errors)


def shown(value: object) -> object:
    """Return an input as it may stand in a problem."""
    if isinstance(value, UploadFile):
        return value.filename
    if isinstance(value, dict):
        return {str(key): shown(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shown(each) for each in value]
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
