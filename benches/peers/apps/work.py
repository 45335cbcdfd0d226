"""What every app answers, the same bytes whoever serves them: the parameters are those of the scenario files.

Nothing here knows a framework. What is not about the work measured is made once, when the app is loaded.
"""

import asyncio
import hashlib
import os
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

HELLO = "Hello, world!"
PLAIN = "text/plain; charset=utf-8"
EVENT_STREAM = "text/event-stream"
#: Responses of the scenario `payload`, by their size in bytes.
SIZES = (1024, 100 * 1024, 1024 * 1024)


def block(size: int) -> bytes:
    """Bytes that are the same in every run and do not compress to nothing."""
    text = b"".join(
        hashlib.sha256(number.to_bytes(8)).hexdigest().encode() for number in range(size // 64 + 1)
    )
    return text[:size]


PAYLOADS = {size: block(size) for size in SIZES}


def static_folder() -> Path:
    """The folder of the scenario `static`, with one file of 2 KiB and one of 1 MiB, made where it is missing.

    It is `BENCH_STATIC`, or lies in the folder for temporary files; never in the tree.
    """
    folder = Path(os.environ.get("BENCH_STATIC") or Path(tempfile.gettempdir()) / "oxbrook-bench-peers-files")
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in (("small.bin", 2048), ("large.bin", 1024 * 1024)):
        file = folder / name
        if not file.is_file() or file.stat().st_size != size:
            # Several processes may start at once: each writes a file of its own and renames it.
            part = folder / f"{name}.{os.getpid()}"
            part.write_bytes(b"x" * size)
            part.replace(file)
    return folder


def event(number: int) -> bytes:
    """One event as it is sent; its number tells whether one was lost or out of order."""
    return b"id: %d\ndata: %d\n\n" % (number, number)


async def events(count: int, pause: float) -> AsyncIterator[bytes]:
    """`count` events: a burst where `pause` is 0, else one every `pause` seconds with its time of sending."""
    for number in range(count):
        if pause:
            await asyncio.sleep(pause)
            yield b"id: %d\ndata: %d\n\n" % (number, time.time_ns())
        else:
            yield event(number)
