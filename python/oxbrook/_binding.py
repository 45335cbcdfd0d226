"""How the parameters of a handler bind: which one is the request, which are read from path and query.

The rules are api.md 2.1, 2.4 and 2.5; values are coerced in Rust, here the declarations are read.

Invariant: every parameter of a bound handler is given on every call, so none is ever left to chance; what has
no rule is a `TypeError` at registration.
"""

from __future__ import annotations

import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

from oxbrook import _compose, _depends, _forms
from oxbrook._annotations import KINDS, bare, evaluate, is_model, metadata, show, signature
from oxbrook._bodies import BodyStream
from oxbrook._core import Request
from oxbrook._markers import Marker, Number, Query, marker_of

if TYPE_CHECKING:
    from oxbrook._depends import Plan

SUPPORTED: Final = "str, int, float, bool, UUID, date, datetime, Decimal, an Enum or a Literal of str or int"
EMPTY: Final = inspect.Parameter.empty
JSON: Final = "application/json"
URLENCODED: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
OCTETS: Final = "application/octet-stream"

Presence = Literal["required", "optional", "default"]
Source = Literal["path", "query", "header", "cookie"]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a route that is read from the request, as `App.routes` lists it.

    `kind` is one of `str int float bool uuid date datetime decimal enum literal`; `choices` holds the members
    of an enum or the values of a `Literal`, in the order of declaration, and is None for other kinds.
    """

    name: str
    kind: str
    source: Source
    presence: Presence
    alias: str | None = None
    is_list: bool = False
    default: object = None
    choices: tuple[object, ...] | None = None
    is_keyword_only: bool = False
    ge: Number | None = None
    le: Number | None = None
    pattern: str | None = None
    is_optional: bool = False

    @property
    def wire_name(self) -> str:
        """The name in a request; of a header in lower case, with `-` for `_` unless it was given."""
        if self.source == "header":
            return (self.alias or self.name.replace("_", "-")).lower()
        return self.alias or self.name


@dataclass(frozen=True)
class Argument:
    """One argument of a handler: a coerced value by its index, a dependency, a body, or else the request.

    `body_type` is the media type of a body, `model` the model it is made into.
    """

    name: str
    is_keyword_only: bool
    value: int | None = None
    plan: Plan | None = None
    body: Callable[[Request], Any] | None = None
    body_type: str = ""
    model: Any = None


@dataclass(frozen=True)
class Binding:
    """How a handler is called: its parameters in signature order, and where the request goes.

    `request_index` is the request's place among the positional arguments (None: not given positionally);
    `request_keyword` its name when it is keyword-only. `arguments` is every one in signature order, for a
    handler that the engine cannot call by itself.
    """

    parameters: tuple[Parameter, ...]
    request_index: int | None
    request_keyword: str | None
    arguments: tuple[Argument, ...] = ()

    @property
    def model(self) -> Argument | None:
        """The body that is read as JSON."""
        return next((argument for argument in self.arguments if argument.body_type == JSON), None)

    def is_composed(self, kind: str) -> bool:
        """Whether a handler of this kind takes more than the request, coerced values and a model.

        A model is made on the loop, so that what a blocking handler takes is composed.
        """
        return any(
            argument.plan is not None
            or (argument.body is not None and (argument.body_type != JSON or kind == "blocking"))
            for argument in self.arguments
        )

    @property
    def is_streamed(self) -> bool:
        """Whether the body flows while the handler runs."""
        return any(argument.body_type == OCTETS for argument in self.arguments)

    @property
    def is_form(self) -> bool:
        """Whether the body is bound as a form."""
        return any(argument.body_type in (URLENCODED, MULTIPART) for argument in self.arguments)


class Unsupported(TypeError):
    """An annotation that is no supported type; the text says why where there is more to say."""


def bind(
    fn: Callable[..., object],
    name: str,
    placeholders: Mapping[str, bool],
    local_names: Mapping[str, object] = types.MappingProxyType({}),
) -> Binding:
    """Bind the parameters of `fn` to a path with these placeholders (name to whether it is a catch-all).

    `local_names` are those a string annotation may use beside the module's and the closure's.

    Raises: TypeError naming the handler and the parameter.
    """
    found: list[inspect.Parameter] = []
    markers: dict[str, Marker | None] = {}
    for parameter in signature(fn, name).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        annotation = evaluate(parameter.annotation, fn, local_names)
        try:
            markers[parameter.name] = marker_of(beside := metadata(annotation))
            if any(one is _forms.Form or isinstance(one, _forms.FormDefault) for one in beside):
                raise TypeError("Form() is a default: write name: Model = Form()")
        except TypeError as error:
            raise TypeError(f"handler {name}, parameter {parameter.name!r}: {error}") from None
        found.append(parameter.replace(annotation=bare(annotation)))
    for placeholder in placeholders:
        if all(parameter.name != placeholder for parameter in found):
            raise TypeError(f"handler {name} does not accept the path placeholder {{{placeholder}}}")
    request = find_request(found, name, placeholders)
    request_index = request_keyword = None
    parameters: list[Parameter] = []
    arguments: list[Argument] = []
    for index, parameter in enumerate(found):
        argument = Argument(parameter.name, parameter.kind is parameter.KEYWORD_ONLY)
        if parameter is request:
            if argument.is_keyword_only:
                request_keyword = parameter.name
            else:
                request_index = index
        else:
            try:
                argument = bound(argument, parameter, placeholders, parameters, markers[parameter.name])
            except Unsupported as error:
                raise TypeError(f"handler {name}, parameter {parameter.name!r}: {error}") from None
        arguments.append(argument)
    if sum(argument.body is not None for argument in arguments) > 1:
        raise TypeError(f"handler {name} declares two bodies: a request has one")
    return Binding(tuple(parameters), request_index, request_keyword, tuple(arguments))


def bound(
    argument: Argument,
    parameter: inspect.Parameter,
    placeholders: Mapping[str, bool],
    parameters: list[Parameter],
    marker: Marker | None,
) -> Argument:
    """Return how an argument is filled, by the first row of api.md 2.1 that fits.

    A coerced one joins `parameters`.

    Raises: Unsupported.
    """
    if isinstance(parameter.default, Marker):
        kind = type(parameter.default).__name__
        raise Unsupported(f"{kind} is no default: write Annotated[T, {kind}(...)]")
    if parameter.default is _forms.Form:
        raise Unsupported("Form is a function: write = Form()")
    if marker is not None:
        for is_there, where in (
            (parameter.name in placeholders, "a path placeholder"),
            (isinstance(parameter.default, _depends.Dependency), "a dependency"),
            (parameter.annotation is BodyStream, "a body"),
            (isinstance(parameter.default, _forms.FormDefault), "a form"),
            (is_model(parameter.annotation), "a body"),
        ):
            if is_there:
                raise Unsupported(f"{type(marker).__name__} cannot stand on {where}")
    if parameter.name in placeholders:
        parameters.append(path_parameter(parameter, placeholders[parameter.name]))
    elif isinstance(parameter.default, _depends.Dependency):
        return replace(argument, plan=_depends.plan_of(parameter.default))
    elif parameter.annotation is BodyStream:
        return replace(argument, body=Request.stream, body_type=OCTETS)
    elif isinstance(parameter.default, _forms.FormDefault):
        return form_argument(argument, parameter.annotation, parameter.default)
    elif is_model(parameter.annotation):
        reader = _compose.body_reader(parameter.annotation)
        return replace(argument, body=reader, body_type=JSON, model=parameter.annotation)
    else:
        parameters.append(read_parameter(parameter, marker or Query()))
    return replace(argument, value=len(parameters) - 1)


def form_argument(argument: Argument, annotation: object, default: _forms.FormDefault) -> Argument:
    """Return a form bound to the annotated model."""
    if not is_model(annotation):
        what = "nothing" if annotation is EMPTY else show(annotation)
        raise Unsupported(
            f"Form() is the default of a parameter annotated with a pydantic model, not with {what}"
        )
    return replace(
        argument,
        body=_forms.form_reader(annotation, default.max_parts),
        body_type=MULTIPART if _forms.has_file(annotation) else URLENCODED,
        model=annotation,
    )


def find_request(
    found: list[inspect.Parameter], name: str, placeholders: Mapping[str, bool]
) -> inspect.Parameter | None:
    """Return the parameter that receives the request, by the first of the three rules that applies."""
    annotated = [parameter for parameter in found if parameter.annotation is Request]
    if len(annotated) > 1:
        names = " and ".join(repr(parameter.name) for parameter in annotated)
        raise TypeError(f"handler {name} takes the Request twice: {names}")
    if annotated:
        return annotated[0]
    for parameter in found:
        if parameter.name == "request" and "request" not in placeholders:
            return parameter
    if found:
        first = found[0]
        is_untyped = first.name == "_" or first.annotation in (EMPTY, Any, object)
        if first.default is EMPTY and first.name not in placeholders and is_untyped:
            return first
    return None


def path_parameter(parameter: inspect.Parameter, is_catch_all: bool) -> Parameter:
    """Declare the parameter of a placeholder; an unannotated one is `str`, a default is never used."""
    annotation = str if parameter.annotation is EMPTY else parameter.annotation
    if is_catch_all and annotation is not str:
        raise Unsupported(f"{{*{parameter.name}}} must be annotated str, not {show(annotation)}")
    inner, is_optional, is_list = unwrap(annotation)
    if is_optional or is_list:
        raise Unsupported(f"a path parameter cannot be {show(annotation)}: it is always there, and once")
    kind, choices = kind_of(inner)
    return Parameter(
        name=parameter.name,
        kind=kind,
        source="path",
        presence="required",
        choices=choices,
        is_keyword_only=parameter.kind is parameter.KEYWORD_ONLY,
    )


def read_parameter(parameter: inspect.Parameter, marker: Marker) -> Parameter:
    """Declare a query, header or cookie parameter `T`, `T | None`, `list[T]` or `list[T] | None`."""
    if parameter.annotation is EMPTY:
        raise Unsupported(
            f"has no annotation and is no path placeholder: annotate it as Request or with {SUPPORTED}"
        )
    inner, is_optional, is_list = unwrap(parameter.annotation)
    kind, choices = kind_of(inner)
    has_default = parameter.default is not EMPTY
    if (marker.ge is not None or marker.le is not None) and kind not in ("int", "float", "decimal"):
        raise Unsupported(f"ge and le bound int, float and Decimal, not {show(inner)}")
    if marker.pattern is not None and kind != "str":
        raise Unsupported(f"a pattern is searched for in a str, not in {show(inner)}")
    if is_list and marker.source == "cookie":
        raise Unsupported("a cookie cannot be a list: its last value counts")
    return Parameter(
        name=parameter.name,
        kind=kind,
        source=marker.source,
        is_optional=is_optional,
        alias=marker.alias,
        ge=marker.ge,
        le=marker.le,
        pattern=marker.pattern,
        presence="default" if has_default else "optional" if is_optional else "required",
        is_list=is_list,
        default=parameter.default if has_default else None,
        choices=choices,
        is_keyword_only=parameter.kind is parameter.KEYWORD_ONLY,
    )


def unwrap(annotation: object) -> tuple[object, bool, bool]:
    """Take `| None` and `list[...]` off; return the type, whether it is optional, whether it is a list."""
    is_optional = False
    if get_origin(annotation) in (typing.Union, types.UnionType):
        others = [part for part in get_args(annotation) if part is not types.NoneType]
        if len(others) != 1:
            raise Unsupported(f"{show(annotation)} is not supported: of unions only T | None is")
        annotation, is_optional = bare(others[0]), True
    if annotation is list or annotation is typing.List:  # noqa: UP006 (what a user may have written)
        raise Unsupported("a bare list is not supported: say of what, as list[str]")
    if get_origin(annotation) is list:
        return bare(get_args(annotation)[0]), is_optional, True
    return annotation, is_optional, False


def kind_of(annotation: object) -> tuple[str, tuple[object, ...] | None]:
    """Return the kind of a supported type, and its choices where it has some.

    Raises: Unsupported.
    """
    if get_origin(annotation) is Literal:
        values = get_args(annotation)
        if not all(type(value) in (str, int) for value in values):
            raise Unsupported(f"{show(annotation)} holds more than str and int")
        check_range(annotation, values)
        return "literal", values
    if isinstance(annotation, enum.EnumMeta):
        members: tuple[enum.Enum, ...] = tuple(annotation)
        values = tuple(member.value for member in members)
        if members and (
            all(is_exactly(value, str) for value in values) or all(is_exactly(v, int) for v in values)
        ):
            check_range(annotation, values)
            return "enum", members
        raise Unsupported(f"the values of {show(annotation)} must be all str or all int")
    if isinstance(annotation, type) and get_origin(annotation) is None:
        kind = KINDS.get((annotation.__module__, annotation.__qualname__))
        if kind is not None:
            return kind, None
    if annotation is _forms.UploadFile:
        raise Unsupported("a file is a field of a model: declare that with name: Model = Form()")
    if is_model(annotation):
        raise Unsupported(f"{show(annotation)} is a pydantic model: a body is declared as the model itself")
    raise Unsupported(f"{show(annotation)} is not supported: annotate it as Request or with {SUPPORTED}")


def check_range(annotation: object, values: tuple[object, ...]) -> None:
    """Refuse a choice no request can name: an `int` is read as a 64-bit one."""
    if any(isinstance(value, int) and not -(1 << 63) <= value < 1 << 63 for value in values):
        raise Unsupported(f"{show(annotation)} holds an int beyond 64 bits")


def is_exactly(value: object, of: type) -> bool:
    """Whether a value is a `str` or an `int`; `bool` is an `int` only to Python."""
    return isinstance(value, of) and not isinstance(value, bool)
