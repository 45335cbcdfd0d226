"""What a target says of itself at `/info`, so that a row can be rejected that is not what it claims."""

import asyncio
import json
import os
import sys


def about() -> dict[str, object]:
    """Process, parent, class of the running event loop, interpreter: called on the loop that answers."""
    # The implementation: oxbrook's classes are derived from it.
    classes = type(asyncio.get_running_loop()).__mro__
    loop = next(base for base in classes if not base.__module__.startswith("oxbrook"))
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "loop": f"{loop.__module__}.{loop.__qualname__}",
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "python": sys.version.split()[0],
    }


def encoded() -> bytes:
    """The same as JSON."""
    return json.dumps(about()).encode()
