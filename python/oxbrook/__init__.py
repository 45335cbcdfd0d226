"""Oxbrook: a Python web framework and server on a Rust core.

    from oxbrook import App

    app = App()

    @app.get("/hello/{name}")
    async def hello(name: str) -> str:
        return f"Hello, {name}!"

    app.run()

`__all__` is the API; nothing deeper than this module and `oxbrook.testing` is public.
"""

from oxbrook._app import App
from oxbrook._core import Request
from oxbrook._depends import Depends
from oxbrook._errors import HTTPError, RequestValidationError
from oxbrook._responses import HTML, Redirect, Reply, Response, Stream
from oxbrook._router import Router

__all__ = [
    "HTML",
    "App",
    "Depends",
    "HTTPError",
    "Redirect",
    "Reply",
    "Request",
    "RequestValidationError",
    "Response",
    "Router",
    "Stream",
    "__version__",
]

__version__: str


def __getattr__(name: str) -> str:
    # Reading the installed version costs more than the rest of this import, and few ask for it.
    if name == "__version__":
        from oxbrook._version import version

        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
