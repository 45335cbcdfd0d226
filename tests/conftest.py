"""Fixtures of every test: the command as a child process that is ended at the end of the test."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support import Command

Run = Callable[..., Command]

# A shell's background job is started with SIGINT ignored, and every child would inherit that: tests of Ctrl-C
# would then wait for nothing. A handler of ours is the default again in what we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def log_settings() -> Iterator[None]:
    """Put back what a test changed of the `oxbrook` logger."""
    logger = logging.getLogger("oxbrook")
    handlers, level, propagate = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Return a function that starts `oxbrook ARGUMENTS` in the test's directory."""
    with ExitStack() as stack:

        def start(
            *arguments: str,
            environ: Mapping[str, str] | None = None,
            flags: Sequence[str] = (),
            pass_fds: Sequence[int] = (),
        ) -> Command:
            return stack.enter_context(Command(arguments, tmp_path, environ, flags, pass_fds))

        yield start


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Return a function that writes a file of the test's directory, its text dedented."""

    def put(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return path

    return put


@pytest.fixture
def serve(run: Run, write: Callable[[str, str], Path]) -> Callable[..., Command]:
    """Return a function that serves the app `app` of a source text on a free port."""

    def start(source: str, *arguments: str, environ: Mapping[str, str] | None = None) -> Command:
        write("main.py", source)
        return run("run", "main:app", "--port", "0", *arguments, environ=environ)

    return start
