"""Reading signatures: annotations as written, evaluated as far as they can be (api.md 2.1).

Invariant: nothing is imported for an annotation that no handler mentions.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any, Final, get_args, get_origin

from oxbrook._bodies import BodyStream
from oxbrook._core import Request

# By module and name, so that what no handler mentions is not imported at start.
KINDS: Final[Mapping[tuple[str, str], str]] = {
    ("builtins", "str"): "str",
    ("builtins", "int"): "int",
    ("builtins", "float"): "float",
    ("builtins", "bool"): "bool",
    ("uuid", "UUID"): "uuid",
    ("datetime", "date"): "date",
    ("datetime", "datetime"): "datetime",
    ("decimal", "Decimal"): "decimal",
}


def signature(fn: Callable[..., object], name: str) -> inspect.Signature:
    """Return the signature, annotations as far as they can be evaluated."""
    try:
        if sys.version_info >= (3, 14):
            from annotationlib import Format

            return inspect.signature(fn, annotation_format=Format.FORWARDREF)
        return inspect.signature(fn)
    except ValueError:
        raise TypeError(f"handler {name} has no readable signature") from None


def resolve(annotation: object, fn: Callable[..., object], local_names: Mapping[str, object]) -> object:
    """As `evaluate`, without `Annotated`."""
    return bare(evaluate(annotation, fn, local_names))


def evaluate(annotation: object, fn: Callable[..., object], local_names: Mapping[str, object]) -> object:
    """Evaluate a string annotation; one that cannot be is taken by its last name (api.md 2.1)."""
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        text = annotation
        try:
            annotation = eval(text, {**local_names, **namespace(fn)})
        except Exception:  # whatever it raises, it cannot be resolved
            annotation = by_name(text.rpartition(".")[2].strip(), text)
        if isinstance(annotation, str) and annotation != text:
            return evaluate(annotation, fn, local_names)
    return annotation


def by_name(name: str, otherwise: object) -> object:
    """Return what a name stands for among the annotations that are supported."""
    if name == "Request":
        return Request
    if name == "Any":
        return Any
    if name == "BodyStream":
        return BodyStream
    for module, known in KINDS:
        if known == name:
            return getattr(import_module(module), known)
    return otherwise


def namespace(fn: Callable[..., object]) -> dict[str, Any]:
    """Return the names an annotation of `fn` may use: its module's, then those its closure keeps."""
    inner: Any = inspect.unwrap(fn)
    inner = getattr(inner, "func", inner)  # functools.partial
    inner = getattr(inner, "__func__", inner)
    if not inspect.isfunction(inner):
        inner = type(inner).__call__
    if not inspect.isfunction(inner):
        return {}
    names = dict(inner.__globals__)
    names.update(inspect.getclosurevars(inner).nonlocals)
    return names


def metadata(annotation: object) -> list[object]:
    """Return what stands in the `Annotated` around a type, nested ones joined."""
    found: list[object] = []
    while get_origin(annotation) is Annotated:
        annotation, *beside = get_args(annotation)
        found.extend(beside)
    return found


def bare(annotation: object) -> object:
    """Take `Annotated` off."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def show(annotation: object) -> str:
    """Write an annotation the way it stands in source."""
    if isinstance(annotation, str):
        return repr(annotation)
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation.__qualname__
    return str(annotation).replace("typing.", "")


def is_model(annotation: object) -> bool:
    """Whether it is a pydantic model; pydantic is not imported to find out."""
    pydantic = sys.modules.get("pydantic")
    return (
        pydantic is not None and isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel)
    )
