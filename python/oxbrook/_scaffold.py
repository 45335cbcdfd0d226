"""`oxbrook new`: a project to begin with, whose tests pass as it stands (api.md 18.3).

Invariant: nothing that is there is written over; what is written needs no edit to run.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from oxbrook import _scaffold_files
from oxbrook._version import version

NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def create(directory: str, name: str | None) -> tuple[str, int]:
    """Write a project into a new or empty directory; return its name and how many files it has.

    Raises: ValueError for a name that is none, or a directory that holds something; OSError where it cannot
        be written.
    """
    path = Path(directory)
    if name is None:
        name = Path(os.path.abspath(directory)).name
    if NAME.fullmatch(name) is None:
        raise ValueError(
            f"'{name}' is no name of a project: letters, digits, '.', '_' and '-', a letter or digit first "
            "and last; give one with --name"
        )
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(f"{directory} is there and not an empty directory")
    values = {"name": name, "package": name.lower(), "requirement": requirement(version())}
    for place, text in _scaffold_files.FILES.items():
        file = path / place
        file.parent.mkdir(parents=True, exist_ok=True)
        for key, value in values.items():
            text = text.replace(f"@{key}@", value)
        file.write_text(text, encoding="utf-8")
    return name, len(_scaffold_files.FILES)


def created(name: str, directory: str, count: int) -> str:
    """Return what is printed when it is there."""
    return f"""Created {name} in {directory} ({count} files).

  cd {directory}
  pip install -e '.[test]'
  pytest
  oxbrook run --reload"""


def requirement(installed: str) -> str:
    """Return the requirement of this version and of those that keep its API."""
    parts = re.match(r"(\d+)\.(\d+)", installed)
    if parts is None:
        return "oxbrook"  # a tree that was never installed knows no version
    major, minor = int(parts[1]), int(parts[2])
    end = f"{major + 1}" if major else f"0.{minor + 1}"
    return f"oxbrook>={major}.{minor},<{end}"
