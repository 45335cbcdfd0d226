"""Two files served without Python: the rows of `static`."""

import os
import tempfile
from pathlib import Path

from native import hello, info

from oxbrook import App

SIZES = {"small.bin": 2048, "large.bin": 1024 * 1024}


def folder() -> Path:
    """Make a folder with both files where it is missing, among temporary files and never in the tree."""
    folder = Path(tempfile.gettempdir()) / "oxbrook-bench-files"
    folder.mkdir(exist_ok=True)
    for name, size in SIZES.items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != size:
            # Several servers may start at once: each writes a file of its own and renames it.
            part = folder / f"{name}.{os.getpid()}"
            part.write_bytes(b"x" * size)
            part.replace(file)
    return folder


app = App(openapi_url=None, docs_url=None, mcp_url=None)
app.get("/info")(info)
app.get("/")(hello)
app.static("/static", folder())
