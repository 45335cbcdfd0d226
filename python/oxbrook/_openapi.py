"""The OpenAPI 3.1 document of an app, from the records the router is built of (api.md 15).

Invariant: what the document says of a parameter or a body is what the server checks; it is read from the same
record.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

from oxbrook._annotations import is_model, resolve, signature
from oxbrook._core import status_title

if TYPE_CHECKING:
    from oxbrook._app import App
    from oxbrook._binding import Parameter
    from oxbrook._routing import Route

REF: Final = "#/components/schemas/"
PROBLEM: Final = "application/problem+json"
KINDS: Final[Mapping[str, dict[str, str]]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "uuid": {"type": "string", "format": "uuid"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "decimal": {"type": "string", "format": "decimal"},
}
PROBLEMS: Final[dict[str, Any]] = {
    "Problem": {
        "type": "object",
        "title": "Problem",
        "description": "An error as RFC 9457 describes it.",
        "required": ["type", "title", "status"],
        "properties": {
            "type": {"type": "string", "default": "about:blank"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "instance": {"type": "string"},
        },
    },
    "ValidationProblem": {
        "type": "object",
        "title": "ValidationProblem",
        "description": "What is wrong with the parameters or the body of a request.",
        "required": ["type", "title", "status", "errors"],
        "properties": {
            "type": {"type": "string", "default": "about:blank"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["type", "loc", "msg"],
                    "properties": {
                        "type": {"type": "string"},
                        "loc": {"type": "array", "items": {"type": ["string", "integer"]}},
                        "msg": {"type": "string"},
                        "input": {},
                    },
                },
            },
        },
    },
}


def document(app: App, routes: Iterable[Route]) -> dict[str, Any]:
    """Return the document of an app with these routes."""
    shown = [route for route in routes if route.include_in_schema]
    models = Models(shown)
    names = operation_ids(shown)
    paths: dict[str, dict[str, Any]] = {}
    uses_problem = False
    for route, name in zip(shown, names, strict=True):
        operation = operation_of(route, name, models)
        uses_problem |= "422" in operation["responses"]
        paths.setdefault(route.path.replace("{*", "{"), {})[route.method.lower()] = operation
    info = {"title": app.title, "version": app.version}
    if app.description:
        info["description"] = app.description
    schemas = {**models.definitions, **(PROBLEMS if uses_problem else {})}
    result: dict[str, Any] = {"openapi": "3.1.0", "info": info, "paths": paths}
    if schemas:
        result["components"] = {"schemas": schemas}
    return result


class Models:
    """The schemas of all models of some routes, by name; what is sent may differ from what is read."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.definitions: dict[str, Any] = {}
        self._references: Any = {}
        wanted: dict[tuple[Any, str], None] = {}
        for route in routes:
            for model in (argument.model for argument in route.binding.arguments):
                if model is not None:
                    wanted[model, "validation"] = None
            returned, _ = returned_model(route)
            for model in (returned, *(route.responses or {}).values()):
                if model is not None:
                    wanted[model, "serialization"] = None
        if wanted:
            from pydantic.json_schema import models_json_schema

            pairs: Any = list(wanted)
            self._references, definitions = models_json_schema(pairs, ref_template=REF + "{model}")
            self.definitions = definitions.get("$defs", {})

    def reference(self, model: Any, mode: str) -> dict[str, Any]:
        """Return the schema of a model as it is read (`validation`) or sent (`serialization`)."""
        found: dict[str, Any] = self._references[model, mode]
        return found


def returned_model(route: Route) -> tuple[Any, bool]:
    """Return the model a handler says it returns, None for none, and whether it is a list of them."""
    annotation = resolve(signature(route.fn, route.name).return_annotation, route.fn, {})
    if get_origin(annotation) is list and is_model(get_args(annotation)[0]):
        return get_args(annotation)[0], True
    return (annotation, False) if is_model(annotation) else (None, False)


def operation_of(route: Route, name: str, models: Models) -> dict[str, Any]:
    """Return what the document says of one route."""
    summary, _, description = (inspect.getdoc(route.fn) or "").partition("\n\n")
    operation: dict[str, Any] = {"operationId": name}
    summary = route.summary or " ".join(summary.split())
    if summary:
        operation["summary"] = summary
    if description.strip():
        operation["description"] = description.strip()
    if route.tags:
        operation["tags"] = list(route.tags)
    if route.deprecated:
        operation["deprecated"] = True
    if route.params:
        operation["parameters"] = [parameter_of(parameter) for parameter in route.params]
    body = next((argument for argument in route.binding.arguments if argument.model is not None), None)
    if body is not None:
        content = {body.body_type: {"schema": models.reference(body.model, "validation")}}
        operation["requestBody"] = {"required": True, "content": content}
    elif route.binding.is_streamed:
        # Any bytes will do, none too.
        binary = {"schema": {"type": "string", "format": "binary"}}
        operation["requestBody"] = {"content": {"application/octet-stream": binary}}
    operation["responses"] = responses_of(route, body is not None, models)
    return operation


def responses_of(route: Route, has_body: bool, models: Models) -> dict[str, Any]:
    """Return the documented answers of a route: its own, the 422, then those it lists."""
    returned, is_list = returned_model(route)
    responses = {str(route.status): answer(route.status, None)}
    if returned is not None:
        schema = models.reference(returned, "serialization")
        responses[str(route.status)] = answer(
            route.status, {"type": "array", "items": schema} if is_list else schema
        )
    if route.params or has_body:
        responses["422"] = answer(422, {"$ref": REF + "ValidationProblem"}, PROBLEM)
    for status, model in (route.responses or {}).items():
        listed = None if model is None else models.reference(model, "serialization")
        responses[str(status)] = answer(status, listed)
    return responses


def answer(
    status: int, schema: dict[str, Any] | None, content_type: str = "application/json"
) -> dict[str, Any]:
    """Return one documented answer."""
    described: dict[str, Any] = {"description": status_title(status)}
    if schema is not None:
        described["content"] = {content_type: {"schema": schema}}
    return described


def parameter_of(parameter: Parameter) -> dict[str, Any]:
    """Return what the document says of one parameter."""
    schema: dict[str, Any] = dict(KINDS.get(parameter.kind, ()))
    if parameter.choices is not None:
        values = [one.value if isinstance(one, Enum) else one for one in parameter.choices]
        kinds = {type(value) for value in values}
        if kinds <= {str}:
            schema["type"] = "string"
        elif kinds <= {int}:
            schema["type"] = "integer"
        schema["enum"] = values
    for keyword, bound in (("minimum", parameter.ge), ("maximum", parameter.le)):
        if bound is not None:
            schema[keyword] = float(bound) if isinstance(bound, Decimal) else bound
    if parameter.pattern is not None:
        schema["pattern"] = parameter.pattern
    if parameter.is_list:
        schema = {"type": "array", "items": schema}
    if parameter.is_optional:
        schema = {"anyOf": [schema, {"type": "null"}]}
    if parameter.presence == "default" and parameter.default is not None:
        schema["default"] = parameter.default
    return {
        "name": parameter.wire_name,
        "in": parameter.source,
        "required": parameter.presence == "required",
        "schema": schema,
    }


def operation_ids(routes: list[Route]) -> list[str]:
    """Return one id a route: its function's name, made longer where several have it."""
    names = [getattr(route.fn, "__name__", type(route.fn).__name__) for route in routes]
    shared = {name for name, count in Counter(names).items() if count > 1}
    taken: set[str] = set(names) - shared
    found = []
    for route, name in zip(routes, names, strict=True):
        if name in shared:
            slug = re.sub(r"\W+", "_", route.path).strip("_") or "root"
            base = name = f"{name}_{route.method.lower()}_{slug}"
            number = 2
            while name in taken:
                name = f"{base}_{number}"
                number += 1
            taken.add(name)
        found.append(name)
    return found
