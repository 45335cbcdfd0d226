"""On a free-threaded interpreter an import that turns the GIL back on is found at start (api.md 1.5)."""

from __future__ import annotations

import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.support import DEADLINE, Command

pytestmark = pytest.mark.skipif(
    "t" not in sys.abiflags or getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="needs a free-threaded interpreter whose GIL is off",
)

Write = Callable[[str, str], Path]
Run = Callable[..., Command]

SOURCE = """
#include <Python.h>
static PyModuleDef_Slot slots[] = {{0, NULL}};
static struct PyModuleDef def = {
    PyModuleDef_HEAD_INIT, .m_name = "needs_gil", .m_size = 0, .m_slots = slots,
};
PyMODINIT_FUNC PyInit_needs_gil(void) { return PyModuleDef_Init(&def); }
"""
APP = """
{imports}
import sys
from oxbrook import App
app = App()

@app.get("/")
async def state():
    return [sys._is_gil_enabled(), app.workers]
"""
WARNING = "oxbrook: importing needs_gil turned the GIL back on: running {} loop(s); PYTHON_GIL=0 keeps it off"


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    """Build an extension without the slot that says it needs no GIL, in the test's directory."""
    source = tmp_path / "needs_gil.c"
    source.write_text(SOURCE)
    built = tmp_path / f"needs_gil{sysconfig.get_config_var('EXT_SUFFIX')}"
    linker = shlex.split(sysconfig.get_config_var("LDSHARED") or "cc -shared")
    include = sysconfig.get_path("include")
    subprocess.run([*linker, "-fPIC", f"-I{include}", str(source), "-o", str(built)], check=True, timeout=120)
    return built


def warnings_of(command: Command) -> list[str]:
    return [line for line in command.err.lines if "turned the GIL back on" in line]


def test_the_extension_of_oxbrook_leaves_the_gil_off(run: Run, write: Write) -> None:
    write("main.py", APP.format(imports=""))
    server = run("run", "--port", "0")
    assert httpx.get(server.url, timeout=DEADLINE).json()[0] is False
    assert ", free-threaded Python " in server.out.lines[0]
    assert server.stop() == 0
    assert warnings_of(server) == []


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize(
    "imports",
    [
        "import needs_gil",
        "import helper",
        # An import inside an import is still seen as what it is.
        "import importlib; importlib.import_module('helper')",
    ],
)
def test_the_module_is_named_once_and_one_loop_is_run(run: Run, write: Write, imports: str) -> None:
    write("helper.py", "import needs_gil\n")
    write("main.py", APP.format(imports=imports))
    server = run("run", "--port", "0")
    assert httpx.get(server.url, timeout=DEADLINE).json() == [True, 1]
    assert server.out.lines[0].startswith("Oxbrook: 1 worker loop(s), ")
    assert ", GIL Python " in server.out.lines[0]
    assert server.stop() == 0
    assert warnings_of(server) == [WARNING.format(1)]


@pytest.mark.usefixtures("extension")
def test_a_count_that_was_given_is_kept_under_the_same_warning(run: Run, write: Write) -> None:
    write("main.py", APP.format(imports="import needs_gil"))
    server = run("run", "--port", "0", "--workers", "2")
    assert httpx.get(server.url, timeout=DEADLINE).json() == [True, 2]
    assert server.stop() == 0
    assert warnings_of(server) == [WARNING.format(2)]


@pytest.mark.usefixtures("extension")
def test_a_module_imported_out_of_sight_is_an_extension_module(write: Write, tmp_path: Path) -> None:
    write("script.py", APP.format(imports="import needs_gil") + "\napp.run(port=0)\n")
    with Command([], tmp_path, module="script") as server:
        assert httpx.get(server.url, timeout=DEADLINE).json() == [True, 1]
        assert server.stop() == 0
        assert warnings_of(server) == [WARNING.format(1).replace("needs_gil", "an extension module")]


@pytest.mark.usefixtures("extension")
def test_an_import_between_build_and_serve_changes_the_default(write: Write, tmp_path: Path) -> None:
    write(
        "script.py",
        APP.format(imports="")
        + """
server = app.build_server("127.0.0.1", 0, None, 1024, 1 << 24, 30, 10, 2048, 1 << 24, announce=True)
import needs_gil
server.serve()
""",
    )
    with Command([], tmp_path, module="script") as server:
        assert httpx.get(server.url, timeout=DEADLINE).json() == [True, 1]
        assert server.stop() == 0
        assert len(warnings_of(server)) == 1


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize(("flags", "environ"), [(["-Xgil=1"], {}), ([], {"PYTHON_GIL": "1"})])
def test_a_gil_that_was_asked_for_is_no_matter_for_a_warning(
    run: Run, write: Write, flags: list[str], environ: dict[str, str]
) -> None:
    write("main.py", APP.format(imports="import needs_gil"))
    server = run("run", "--port", "0", flags=flags, environ=environ)
    assert httpx.get(server.url, timeout=DEADLINE).json() == [True, 1]
    assert server.stop() == 0
    assert warnings_of(server) == []


@pytest.mark.usefixtures("extension")
def test_a_gil_kept_off_stays_off_without_a_warning(run: Run, write: Write) -> None:
    write("main.py", APP.format(imports="import needs_gil"))
    server = run("run", "--port", "0", environ={"PYTHON_GIL": "0"})
    assert httpx.get(server.url, timeout=DEADLINE).json()[0] is False
    assert server.stop() == 0
    assert warnings_of(server) == []
