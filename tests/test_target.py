"""Finding the app of a target (api.md 1.6)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oxbrook import App, _target

APP = "from oxbrook import App\napp = App(title={title!r})\n"
Write = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def _importing_from_the_test_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Import from the test's directory, and leave no module of it behind."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    _target.prefer(str(tmp_path))
    yield
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) is None or str(tmp_path) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


def title_of(target: str | None, is_factory: bool = False) -> str:
    return _target.load(target, is_factory).title


def test_a_target_names_a_module_and_an_attribute_that_is_app_by_default(write: Write) -> None:
    write(
        "shop.py", APP.format(title="shop") + "class Box: pass\nbox = Box()\nbox.inner = App(title='inner')\n"
    )
    assert title_of("shop") == "shop"
    assert title_of("shop:app") == "shop"
    assert title_of("shop:box.inner") == "inner"


def test_the_target_may_lie_in_a_package(write: Write) -> None:
    write("pkg/__init__.py", "")
    write("pkg/web.py", APP.format(title="web"))
    assert title_of("pkg.web:app") == "web"


def test_a_factory_is_called_for_its_app(write: Write) -> None:
    write(
        "shop.py",
        "from oxbrook import App\ndef make(): return App(title='made')\ndef wrong(): return 5\nn = 3\n",
    )
    assert title_of("shop:make", is_factory=True) == "made"
    with pytest.raises(_target.TargetError, match="not an oxbrook"):
        title_of("shop:wrong", is_factory=True)
    with pytest.raises(_target.TargetError, match="not callable"):
        title_of("shop:n", is_factory=True)


DISCOVERY = [
    ({"main.py": "main", "app.py": "app"}, "main"),
    ({"app.py": "app"}, "app"),
    ({"app/__init__.py": None, "app/main.py": "package"}, "package"),
    ({"app/main.py": "namespace"}, "namespace"),
    ({"main.py": None, "app.py": "app"}, "app"),
]


@pytest.mark.parametrize(("files", "title"), DISCOVERY)
def test_without_a_target_the_first_usual_place_that_is_there_is_taken(
    write: Write, files: dict[str, str | None], title: str
) -> None:
    for name, app_title in files.items():
        write(name, "" if app_title is None else APP.format(title=app_title))
    assert title_of(None) == title


def test_without_a_target_and_without_a_usual_place_the_three_are_named() -> None:
    with pytest.raises(_target.TargetError) as caught:
        title_of(None)
    text = str(caught.value)
    assert "no target given" in text
    assert all(name in text for name in ("main:app", "app:app", "app.main:app"))


def test_a_module_that_raises_ends_the_search(write: Write) -> None:
    write("main.py", "import nothing_of_that_name\n")
    write("app.py", APP.format(title="app"))
    with pytest.raises(ModuleNotFoundError, match="nothing_of_that_name"):
        title_of(None)


BAD = [
    ("", "should look like 'module:attribute'"),
    (":app", "should look like 'module:attribute'"),
    ("shop:", "should look like 'module:attribute'"),
    ("shop:a:b", "should look like 'module:attribute'"),
    ("shop..web:app", "should look like 'module:attribute'"),
    ("missing:app", "no module named 'missing'"),
    ("missing.web:app", "no module named 'missing.web'"),
    ("shop.web:app", "no module named 'shop.web'"),
    ("shop:nothing", "has no attribute 'nothing'; it defines app, other"),
    ("shop:app.nothing", "has no attribute 'app.nothing'"),
    ("empty:app", "has no attribute 'app'; it defines no App"),
    ("shop:number", "not an oxbrook.App"),
    ("shop:make", "not an oxbrook.App; if it makes the app, add --factory"),
]


@pytest.mark.parametrize(("target", "text"), BAD)
def test_a_bad_target_is_a_usage_error_that_says_why(write: Write, target: str, text: str) -> None:
    write("empty.py", "")
    write("shop.py", APP.format(title="shop") + "other = App()\nnumber = 1\ndef make(): return app\n")
    with pytest.raises(_target.TargetError) as caught:
        title_of(target)
    assert text in str(caught.value)


RAISING = [
    ("import nothing_of_that_name\n", ModuleNotFoundError),
    ("import importlib\nimportlib.import_module('shop.inner')\n", ModuleNotFoundError),
    ("1 / 0\n", ZeroDivisionError),
    ("def broken(:\n", SyntaxError),
    ("from oxbrook import NoSuchName\n", ImportError),
]


@pytest.mark.parametrize(("source", "kind"), RAISING)
def test_what_the_module_raises_passes_through(write: Write, source: str, kind: type[Exception]) -> None:
    write("shop.py", source)
    with pytest.raises(kind):
        title_of("shop:app")


def test_the_hint_to_a_factory_is_left_out_for_what_cannot_be_called(write: Write) -> None:
    write("shop.py", "app = 5\n")
    with pytest.raises(_target.TargetError) as caught:
        title_of("shop")
    assert "--factory" not in str(caught.value)
    assert isinstance(App(), App)
