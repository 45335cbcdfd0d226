"""`oxbrook new`: what it writes runs as it stands, and it writes over nothing (api.md 18.3)."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import oxbrook
from oxbrook._scaffold import requirement
from tests.support import Command, is_ours

Run = Callable[..., Command]

FILES = {
    "pyproject.toml",
    "app/__init__.py",
    "app/main.py",
    "app/notes.py",
    "app/settings.py",
    "tests/conftest.py",
    "tests/test_notes.py",
    "README.md",
    ".env.example",
    ".gitignore",
    "AGENTS.md",
}


def python(*arguments: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a module of this interpreter's environment, nothing of this tree on its path."""
    environ = {name: value for name, value in os.environ.items() if not is_ours(name)}
    environ = {
        name: value for name, value in environ.items() if not name.startswith(("PYTEST_", "PYTHONPATH"))
    }
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, timeout=100)


def test_a_new_project_passes_its_own_tests_and_is_served(run: Run, tmp_path: Path) -> None:
    made = run("new", "My.Shop")
    assert made.ended() == 0
    assert made.out.lines[0] == f"Created My.Shop in My.Shop ({len(FILES)} files)."
    assert "  oxbrook run --reload" in made.out.lines
    project = tmp_path / "My.Shop"
    assert {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()} == FILES
    assert "@" not in "".join(path.read_text() for path in project.rglob("*.py")).replace(
        "@router", ""
    ).replace("@pytest", "")
    manifest = tomllib.loads((project / "pyproject.toml").read_text())
    assert manifest["project"]["name"] == "my.shop"
    assert manifest["project"]["dependencies"][0] == requirement(oxbrook.__version__)
    tests = python(
        "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:timeout", directory=project
    )
    assert tests.returncode == 0, tests.stdout + tests.stderr
    assert "3 passed" in tests.stdout
    for check in (["mypy", "--strict", "app", "tests"], ["ruff", "check", "."]):
        checked = python(*check, directory=project)
        assert "No module named" in checked.stderr or checked.returncode == 0, checked.stdout
    served = run("run", "--app-dir", "My.Shop", "--port", "0")
    assert served.url
    assert served.stop() == 0
    listed = run("settings", "app.main", "--app-dir", "My.Shop")
    assert listed.ended() == 0
    assert listed.out.lines[-1].split() == ["APP_DEBUG", "bool", "default", "false"]


def test_a_project_may_have_another_name_and_an_empty_directory(run: Run, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    assert run("new", "here", "--name", "Oxen").ended() == 0
    assert tomllib.loads((tmp_path / "here" / "pyproject.toml").read_text())["project"]["name"] == "oxen"
    assert 'App(title="Oxen"' in (tmp_path / "here" / "app" / "main.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["full"], "full is there and not an empty directory"),
        (["file"], "file is there and not an empty directory"),
        (["new", "--name=-x"], "'-x' is no name of a project"),
        (["_new"], "'_new' is no name of a project"),
        (["new", "--name", 'a"b'], "is no name of a project"),
    ],
)
def test_what_it_refuses_writes_nothing(run: Run, tmp_path: Path, arguments: list[str], text: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "kept").write_text("")
    (tmp_path / "file").write_text("")
    before = sorted(tmp_path.rglob("*"))
    refused = run("new", *arguments)
    assert refused.ended() == 2
    assert refused.err.text.startswith("oxbrook: error: ")
    assert text in refused.err.text
    assert sorted(tmp_path.rglob("*")) == before


def test_the_requirement_keeps_to_versions_with_this_api() -> None:
    cases = {
        "0.4.0": "oxbrook>=0.4,<0.5",
        "0.11.3rc1": "oxbrook>=0.11,<0.12",
        "1.2.3": "oxbrook>=1.2,<2",
        "0+unknown": "oxbrook",
    }
    assert {installed: requirement(installed) for installed in cases} == cases
