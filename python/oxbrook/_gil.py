"""Finds the import that turned the GIL back on, for the warning of api.md 1.5.

Invariant: on a build with a GIL, and where the GIL is on by request, nothing is watched and nothing is said.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from types import ModuleType

from oxbrook._workers import gil_enabled

# Names of the modules that turned the GIL on while someone watched: at most one, since it is turned on once.
culprits: list[str] = []


@contextmanager
def watching() -> Iterator[None]:
    """Notice which extension module turns the GIL on while the block imports.

    CPython decides it when it creates the module, so the state before and after that call tells. The loader's
    method is replaced for the block only; a finder of our own would change `sys.meta_path` for the program.
    """
    if gil_enabled():
        yield
        return
    create = ExtensionFileLoader.create_module

    def create_and_look(self: ExtensionFileLoader, spec: ModuleSpec) -> ModuleType:
        was_on = gil_enabled()
        module = create(self, spec)
        if not was_on and gil_enabled():
            culprits.append(spec.name)
        return module

    ExtensionFileLoader.create_module = create_and_look  # type: ignore[method-assign]
    try:
        yield
    finally:
        ExtensionFileLoader.create_module = create  # type: ignore[method-assign]


def was_turned_on() -> bool:
    """Whether an import turned the GIL on: it is on, the build is free-threaded, nobody asked for it."""
    # The ABI flag says what was built; sysconfig would say the same and costs milliseconds of the start.
    if "t" not in sys.abiflags or not gil_enabled():
        return False
    asked = sys._xoptions.get("gil", os.environ.get("PYTHON_GIL"))
    return asked != "1"


def warning(loop_count: int) -> str:
    """Return the line for stderr of a server that runs `loop_count` loops under a GIL turned back on."""
    module = culprits[0] if culprits else "an extension module"
    return (
        f"oxbrook: importing {module} turned the GIL back on: running {loop_count} loop(s); "
        "PYTHON_GIL=0 keeps it off"
    )
