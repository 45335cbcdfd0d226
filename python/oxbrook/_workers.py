"""How many loops to run where nobody says: one under the GIL, else what the machine can run (api.md 1.5).

Invariant: the state of the GIL is asked whenever it matters, not of the build: an import may change it.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from oxbrook import _core

MAX_DEFAULT_WORKERS: Final = 8


def gil_enabled() -> bool:
    """Whether the GIL is on now; on where there is no way to ask."""
    ask = getattr(sys, "_is_gil_enabled", None)
    return True if ask is None else bool(ask())


def default_workers() -> int:
    """Return the number of loops of a server that is not told."""
    if gil_enabled():
        return 1
    return max(1, min(MAX_DEFAULT_WORKERS, readings()["detected"] or 1))


def describe() -> dict[str, int | None]:
    """Return every reading of the machine (None: it said nothing) and what follows from them."""
    found = readings()
    names = ("performance_cores", "physical_cores", "cgroup_quota", "available_cpus")
    return {
        **{name: found[name] for name in names},
        "os_cpu_count": os.cpu_count(),
        "detected": found["detected"],
        "default_workers": default_workers(),
    }


def default_io_threads() -> int:
    """Return the number of I/O threads of a server that is not told (api.md 1.2)."""
    usable = readings()["usable_cpus"] or 1
    return 1 if usable <= 2 else max(1, min(4, usable // 4))


def readings() -> dict[str, int | None]:
    """Ask the machine; `process_cpu_count` also heeds what the interpreter was told."""
    count = getattr(os, "process_cpu_count", None)
    return _core.probe(None if count is None else count())
