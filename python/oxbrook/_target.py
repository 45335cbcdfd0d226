"""Finding the app a command is given: `module:attribute`, or one of the usual places.

Invariant: only the finding is a `TargetError`; what the program's own code raises while it is imported passes
through as it is, so it keeps its traceback.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, TracebackType
from typing import Final

from oxbrook._app import App

IMPORTING: Final = (__name__, "importlib", "importlib._bootstrap", "_frozen_importlib")
USUAL: Final = ("main:app", "app:app", "app.main:app")


class TargetError(Exception):
    """A usage error about the target; the text is for the person who typed it."""


class ModuleMissing(TargetError):
    """The target's module is not there."""


class AttributeMissing(TargetError):
    """The module is there and the attribute is not."""


def load(target: str | None, is_factory: bool) -> App:
    """Import the target and return its app; `None` takes the first of `USUAL` that is there.

    Raises: TargetError, and whatever the module or the factory raises.
    """
    if target is not None:
        return as_app(target, find(target), is_factory)
    for usual in USUAL:
        try:
            found = find(usual)
        except (ModuleMissing, AttributeMissing):
            continue
        return as_app(usual, found, is_factory)
    raise TargetError(f"no target given, and none of {', '.join(USUAL)} is there")


def find(target: str) -> object:
    """Import the module of a target and return the object its attribute names."""
    module = import_module_of(target)
    module_name, attribute = split(target)
    found: object = module
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise AttributeMissing(
                f"module '{module_name}' has no attribute '{attribute}'; it defines {apps_of(module)}"
            ) from None
    return found


def import_module_of(target: str) -> ModuleType:
    """Import the module of a target."""
    module_name, _attribute = split(target)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if is_about(error, module_name):
            raise ModuleMissing(f"no module named '{module_name}'") from None
        raise


def split(target: str) -> tuple[str, str]:
    """Split a target into module and attribute, which is `app` where none is given."""
    module_name, colon, attribute = target.partition(":")
    if not colon:
        attribute = "app"
    if ":" in attribute or not all((*module_name.split("."), *attribute.split("."))):
        raise TargetError(f"target '{target}' should look like 'module:attribute'")
    return module_name, attribute


def is_about(error: ModuleNotFoundError, module_name: str) -> bool:
    """Whether the target itself, or a package it lies in, is what was not found.

    A module of that name that is there and imports something missing fails in a frame of its own.
    """
    if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
        return False
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") not in IMPORTING:
            return False
        trace = trace.tb_next
    return True


def apps_of(module: ModuleType) -> str:
    """Return the names of the apps a module defines, for an error text."""
    names = [name for name, value in vars(module).items() if isinstance(value, App)]
    return ", ".join(names) or "no App"


def as_app(target: str, found: object, is_factory: bool) -> App:
    """Return the object, or what it gives when called, if that is an `App`."""
    if is_factory:
        if not callable(found):
            raise TargetError(f"'{target}' is not callable, so it is no factory")
        found = found()
        if isinstance(found, App):
            return found
        raise TargetError(f"'{target}' returned {describe(found)}, which is not an oxbrook.App")
    if isinstance(found, App):
        return found
    hint = "; if it makes the app, add --factory" if callable(found) else ""
    raise TargetError(f"'{target}' is {describe(found)}, which is not an oxbrook.App{hint}")


def describe(value: object) -> str:
    """Name the kind of an object for an error text."""
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def prefer(directory: str) -> None:
    """Put the app's directory first on `sys.path`."""
    if sys.path[:1] != [directory]:
        sys.path.insert(0, directory)
