"""`oxbrook settings TARGET`: the variables a program reads, and what is wrong with them (api.md 18.2).

Invariant: a value is never printed; a default is, unless it is a secret's.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from oxbrook import _target
from oxbrook._settings_error import SettingsError

if TYPE_CHECKING:
    from oxbrook._settings import Settings


def print_settings(target: str, is_json: bool) -> None:
    """Print the variables of every class of settings the target defines."""
    # One that cannot be made while the target is imported is listed all the same.
    with suppress(SettingsError):
        _target.import_module_of(target)
    found = defined()
    if is_json:
        listed = [{"settings": cls.__name__, "variables": rows(cls)} for cls in found]
        print(json.dumps(listed, ensure_ascii=False, indent=2))
        return
    if not found:
        print("no Settings classes found")
        return
    for number, cls in enumerate(found):
        print(f"{chr(10) if number else ''}{cls.__name__}")
        print_table(cls)


def defined() -> list[type[Settings]]:
    """Return the classes of settings there are; without pydantic there can be none."""
    module = sys.modules.get("oxbrook._settings")
    return [] if module is None else module.classes()


def rows(cls: type[Settings]) -> list[dict[str, Any]]:
    """Return the variables of a class, each with what is wrong with it."""
    problems: dict[str, str] = {}
    try:
        cls()
    except SettingsError as error:
        problems = error.problems
    listed: list[dict[str, Any]] = [
        {**variable, "problem": problems.pop(variable["variable"], None)} for variable in cls.variables()
    ]
    # What is wrong with several of them together.
    for name, problem in problems.items():
        empty = dict.fromkeys(("field", "type", "default", "source"))
        listed.append({"variable": name, **empty, "required": False, "secret": False, "problem": problem})
    return listed


def print_table(cls: type[Settings]) -> None:
    """Print the variables of a class."""
    table = [("VARIABLE", "TYPE", "STATUS")]
    table += [(row["variable"], row["type"] or "", status(cls, row)) for row in rows(cls)]
    widths = [max(len(line[column]) for line in table) for column in range(2)]
    for name, kind, text in table:
        print(f"{name:{widths[0]}}  {kind:{widths[1]}}  {text}")


def status(cls: type[Settings], row: dict[str, Any]) -> str:
    """Say how a variable stands."""
    from oxbrook._settings import default_of

    if row["problem"] is not None:
        return str(row["problem"])
    if row["source"] == "environment":
        return "set"
    if row["source"] == "secrets file":
        return "set (secrets file)"
    default = default_of(cls.model_fields[row["field"]])
    return f"default {json.dumps(default.value, ensure_ascii=False)}" if default.is_shown else "default"
