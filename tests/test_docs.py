"""The examples of README.md and docs/ run, and give what is printed under them.

A block marked `python` is run as a module. `test_*` functions in it are called. A block marked `console` asks
the `app` of the Python block before it; the lines under each `$ curl ...` are the whole answer.
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from oxbrook import App
from oxbrook.testing import TestClient

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ADDRESS = "http://127.0.0.1:8000"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Example:
    """A Python block of a page and the `curl` commands that follow it, with their answers."""

    page: Path
    line: int
    code: str
    asked: list[tuple[str, str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def examples() -> list[Example]:
    found: list[Example] = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        current: Example | None = None
        for block in FENCE.finditer(text):
            language, body = block.groups()
            if language == "python":
                current = Example(page, text.count("\n", 0, block.start()) + 2, body)
                found.append(current)
            elif language == "console":
                assert current is not None, f"{page}: a console block before any Python block"
                current.asked.extend(commands(body))
    return found


def commands(body: str) -> list[tuple[str, str]]:
    """Split a console block into (command, expected answer)."""
    pieces = re.split(r"^\$ ", body, flags=re.MULTILINE)
    assert pieces[0] == "", f"a console block starts with a command: {body!r}"
    pairs = (piece.partition("\n") for piece in pieces[1:])
    return [(command, answer.rstrip("\n")) for command, _, answer in pairs]


def ask(client: TestClient, command: str) -> str:
    """Do what the `curl` command says, and return what it would print."""
    program, *words = shlex.split(command)
    assert program == "curl", f"only curl is understood: {command}"
    method, headers, body, shows_status, target = "", {}, None, False, ""
    arguments = iter(words)
    for word in arguments:
        if word == "-i":
            shows_status = True
        elif word == "-X":
            method = next(arguments)
        elif word == "-A":
            headers["User-Agent"] = next(arguments)
        elif word == "-H":
            name, _, value = next(arguments).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = next(arguments)
        elif word != "-N":
            target = word.removeprefix(ADDRESS)
    method = method or ("GET" if body is None else "POST")
    answer = client.request(method, target, headers=headers, content=body)
    lines = [f"{answer.http_version} {answer.status_code}"] if shows_status else []
    return "\n".join([*lines, answer.text.rstrip("\n")]).rstrip("\n")


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_an_example_runs_and_gives_the_answers_shown_under_it(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("example_of_the_guide")
    # Where dataclasses and string annotations look a class's module up.
    monkeypatch.setitem(sys.modules, module.__name__, module)
    code = compile("\n" * (example.line - 1) + example.code, str(example.page), "exec")
    exec(code, module.__dict__)
    for name, member in list(vars(module).items()):
        if name.startswith("test_"):
            member()
    if not example.asked:
        return
    app = vars(module)["app"]
    assert isinstance(app, App)
    with TestClient(app, workers=1) as client:
        for command, expected in example.asked:
            assert ask(client, command) == expected, command


def test_every_page_of_the_guide_is_in_its_index_and_every_link_leads_somewhere() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if page.parent.name == "docs" and page.name != "README.md":
            assert f"({page.name})" in index, page
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (page.parent / target).exists(), f"{page}: {target}"
