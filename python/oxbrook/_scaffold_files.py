"""The files of a new project, by their places. `@name@`, `@package@` and `@requirement@` are filled in.

Invariant: what is written here passes its own tests, the linter and the type checker.
"""

from __future__ import annotations

from typing import Final

PYPROJECT: Final = """\
[project]
name = "@package@"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["@requirement@", "pydantic>=2.9"]

[project.optional-dependencies]
test = ["pytest", "httpx", "websockets"]

[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[tool.setuptools]
packages = ["app"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
"""

MAIN: Final = '''\
"""The app: `oxbrook run` serves it."""

from collections.abc import AsyncIterator

from oxbrook import App, Health

from app.notes import Notes, router
from app.settings import Settings

settings = Settings()


async def lifespan(app: App) -> AsyncIterator[dict[str, Notes]]:
    """Set up what all requests share; what stands after the yield takes it down."""
    yield {"notes": Notes()}


app = App(title="@name@", debug=settings.debug, lifespan=lifespan, health=Health())
app.include(router)
'''

NOTES: Final = '''\
"""Notes: kept in memory, until there is a database."""

from itertools import count

from oxbrook import HTTPError, Request, Router
from pydantic import BaseModel, Field

router = Router("/notes")


class NoteIn(BaseModel):
    """What a client sends."""

    title: str = Field(min_length=1, max_length=200)
    text: str = ""


class Note(NoteIn):
    """What is kept."""

    id: int


class Notes:
    """All notes, by their ids."""

    def __init__(self) -> None:
        self.by_id: dict[int, Note] = {}
        self.ids = count(1)


def of(request: Request) -> Notes:
    """Return the notes of the app that serves this request."""
    notes = request.state.notes
    assert isinstance(notes, Notes)
    return notes


@router.get("")
async def list_notes(request: Request) -> list[Note]:
    """List all notes."""
    return list(of(request).by_id.values())


@router.post("", status=201)
async def create_note(request: Request, note: NoteIn) -> Note:
    """Keep a new note."""
    notes = of(request)
    created = Note(id=next(notes.ids), **note.model_dump())
    notes.by_id[created.id] = created
    return created


@router.get("/{note_id}")
async def read_note(request: Request, note_id: int) -> Note:
    """Read one note."""
    return found(request, note_id)


@router.put("/{note_id}")
async def replace_note(request: Request, note_id: int, note: NoteIn) -> Note:
    """Replace a note."""
    found(request, note_id)
    replaced = Note(id=note_id, **note.model_dump())
    of(request).by_id[note_id] = replaced
    return replaced


@router.delete("/{note_id}")
async def delete_note(request: Request, note_id: int) -> None:
    """Delete a note."""
    found(request, note_id)
    del of(request).by_id[note_id]


def found(request: Request, note_id: int) -> Note:
    """Return a note; answer 404 where there is none."""
    note = of(request).by_id.get(note_id)
    if note is None:
        raise HTTPError(404, f"there is no note {note_id}")
    return note
'''

SETTINGS: Final = '''\
"""Settings, from the environment: `oxbrook settings app.main` lists them."""

import oxbrook


class Settings(oxbrook.Settings, prefix="APP_"):
    """Each field is read from the variable APP_ and its name."""

    debug: bool = False
'''

CONFTEST: Final = '''\
"""Fixtures of all tests."""

from collections.abc import Iterator

import pytest
from oxbrook.testing import TestClient

from app.main import app


@pytest.fixture
def client() -> Iterator[TestClient]:
    """Give a client of the app, served on a free port."""
    with TestClient(app) as client:
        yield client
'''

TESTS: Final = '''\
"""The notes, through a real socket."""

from oxbrook.testing import TestClient


def test_a_note_is_created_read_replaced_and_deleted(client: TestClient) -> None:
    created = client.post("/notes", json={"title": "Milk"})
    assert created.status_code == 201
    note = created.json()
    place = f"/notes/{note['id']}"
    assert client.get(place).json() == note
    assert client.get("/notes").json() == [note]
    assert client.put(place, json={"title": "Oat milk", "text": "two"}).json()["text"] == "two"
    assert client.delete(place).status_code == 204
    assert client.get(place).status_code == 404


def test_a_note_needs_a_title(client: TestClient) -> None:
    refused = client.post("/notes", json={"title": ""})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["loc"] == ["title"]


def test_the_document_lists_the_notes(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/notes", "/notes/{note_id}"}
'''

README: Final = """\
# @name@

An [Oxbrook](https://pypi.org/project/oxbrook/) app.

```sh
python -m venv .venv && . .venv/bin/activate
pip install -e '.[test]'
pytest                           # the tests
oxbrook run --reload             # serve it, and again when a file changes
oxbrook settings app.main        # the variables it reads
```

Variables may stand in a file: copy `.env.example` to `.env` and add `--env-file .env`.
"""

ENV: Final = """\
# Copy to .env and run: oxbrook run --env-file .env
# Show the text of exceptions to clients; never in production.
APP_DEBUG=false
"""

IGNORE: Final = """\
.env
.venv/
__pycache__/
*.egg-info/
.pytest_cache/
build/
dist/
"""

AGENTS: Final = """\
# Rules for coding assistants

- The app is `app/main.py`; routes of one subject are a `Router` in a module of their own, included there.
- A handler is `async def`. One that blocks (a synchronous driver, a large computation) is a plain `def`
  registered with `blocking=True`; it runs on a pool of threads.
- Parameters are annotated: those named in the path are read from it, a pydantic model is the body, others are
  the query. Do not parse by hand what an annotation says.
- Refuse with `raise HTTPError(status, "why")`. Exception text reaches no client unless `debug` is on.
- What all requests share is set up in `lifespan`; what belongs to one event loop (a pool of connections) in
  `worker_lifespan`. Handlers read it from `request.state`. No module globals that change.
- Settings are fields of `app/settings.py`; nothing else reads the environment.
- Each route has a test in `tests/`, with the `client` fixture, through a real socket. Run `pytest` before you
  are done.
"""

FILES: Final = {
    "pyproject.toml": PYPROJECT,
    "app/__init__.py": "",
    "app/main.py": MAIN,
    "app/notes.py": NOTES,
    "app/settings.py": SETTINGS,
    "tests/conftest.py": CONFTEST,
    "tests/test_notes.py": TESTS,
    "README.md": README,
    ".env.example": ENV,
    ".gitignore": IGNORE,
    "AGENTS.md": AGENTS,
}
